import fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { relativeCost } from "../../../test/hardening/support/relative-cost.ts";
import {
  isSecretExpression,
  isSecretName,
  isSecretValue,
  maxShownLength,
  redactHeaders,
  redactNamed,
  redactPath,
  redactText,
  redactValue,
  setSecretNames,
} from "./redaction.ts";

test.each([
  ...["Authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "x-api-key", "X-Amz-Security-Token"],
  ...["x-session-id", "x-bearer", "x-sign", "X-Amz-Signature", "x-goog-iam", "x-goog-iam-authority-selector"],
  ...["x-upstream-pass", "jwt", "access", "pw", "db_pw", "sig", "code", "accessToken", "userPass", "id_token", "sid"],
  ...["x-csrf-token", "SAMLResponse", "client_assertion", "dpop", "X-Access", "apikey", "authorization_code"],
  ...[
    "access_tokens",
    "idTokens",
    "auth_tokens",
    "token",
    "x-token-a",
    "session_tokens",
    "token_secret",
    "accesstokens",
  ],
  ...[
    "Sec-WebSocket-Protocol",
    "pswd",
    "totp",
    "mfa_code",
    "ticket",
    "connection_string",
    "connectionString",
    "sentry-dsn",
  ],
])("%s may hold a secret", (name) => expect(isSecretName(name)).toBe(true));

test.each([
  ...["content-type", "user-agent", "x-team", "sec-websocket-key", "x-request-id", "access-control-allow-origin"],
  ...["totalTokens", "accept", "design", "encoding", "compass-id", "x-forwarded-for", "passage", "host"],
  ...["user_tokens", "tokens", "max-tokens", "maxTokens", "token_limit", "tokens_per_minute", "llm.totalTokens"],
])("%s is not secret", (name) => expect(isSecretName(name)).toBe(false));

test.each<readonly [value: string, isSecret: boolean]>([
  ["Bearer abc", true],
  ["Basic dXNlcjpwYXNz", true],
  ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", true],
  ["sk-proj-abcdefghijklmnop", true],
  ["ghp_abcdefghijklmnopqrst", true],
  ["application/json", false],
  ["asia-southeast1-docker.pkg.dev", false],
  ["/npm-package-of-some-length", false],
  ["global-ratelimit-service-of-mine", false],
  ...[
    ...["gsk_", "r8_", "tgp_v1_", "fw_", "npm_", "whsec_", "hf_", "ghr_", "github_pat_"],
    ...["xai-", "pplx-", "nvapi-", "xapp-", "xoxe-", "glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glsoat-"],
    ...["ya29.", "ASIA", "AKIA", "dapi0123456789abcdef"],
  ].map((prefix): readonly [string, boolean] => [`${prefix}0123456789abcdef`, true]),
  ["-----BEGIN PRIVATE KEY-----", true],
  ["-----BEGIN+RSA+PRIVATE+KEY-----", true],
  ["basic", false],
  ["task-of-the-day", false],
])("the value %j is a credential by its form: %j", (value, isSecret) => {
  expect(isSecretValue(value)).toBe(isSecret);
});

test.each([
  ["https://a.example/cb?code=MARK&state=1", "https://a.example/cb?code=<redacted>&state=1"],
  ["/a#access_token=MARK", "/a#access_token=<redacted>"],
  ["/a;jsessionid=MARK/b?n=1", "/a;jsessionid=<redacted>"],
  ["/a?n=1;token=MARK/MARK,MARK;MARK&m=2", "/a?n=1;token=<redacted>&m=2"],
  ["/a?next=https%3A%2F%2Fh%2F%3Ftoken%3DMARK&n=1", "/a?next=<redacted>&n=1"],
  ["/plain?n=1&m=2#top", "/plain?n=1&m=2#top"],
  ["https://user:MARK@a.example/", "https://<redacted>@a.example/"],
  ["<https://a.example/?sig=MARK>; rel=next", "<https://a.example/?sig=<redacted> rel=next"],
  ["/login?password=MARK'MARK&x=1", "/login?password=<redacted>&x=1"],
  ['/login?password="MARK MARK"&x=1', "/login?password=<redacted>&x=1"],
  ["/login?password=<MARK>MARK", "/login?password=<redacted>"],
  ["/v1/token=MARK/x", "/v1/token=<redacted>"],
  ["/v1/a=sk-MARKMARKMARKMARK/x", "/v1/a=<redacted>"],
  ["/v1/a=1/b", "/v1/a=1/b"],
  ["https://a.example/%73k-MARKMARKMARKMARK", "https://a.example/<redacted>"],
  ["/hooks/Bearer%20MARKMARK/x", "/hooks/<redacted>/x"],
  ["/cb?%2574oken=MARK", "/cb?%2574oken=<redacted>"],
  ["/x%3Ftoken%3DMARK/y", "/<redacted>/y"],
  ["/a%2Fb%20c/y", "/a%2Fb%20c/y"],
  ["/cb?authorization=Bearer MARK&n=1", "/cb?authorization=<redacted>&n=1"],
  ["/cb?next=a%2525252525b", "/cb?next=<redacted>"],
  ["/cb?next=a%252Fb", "/cb?next=a%252Fb"],
  ["/cb?next=https%25253A%25252F%25252Fh%25252F%25253Ftoken%25253DMARK", "/cb?next=<redacted>"],
  ["/hooks/sk-proj-MARKMARKMARKMARK/x", "/hooks/<redacted>/x"],
  ["/a?next=Bearer%20MARK", "/a?next=<redacted>"],
  ['/a?q={"token":"MARK","n":1}&m=2', '/a?q={"token":<redacted>,"n":1}&m=2'],
  ['/a?q={"n":1,"token" : "MARK\\"MARK","m":2}', '/a?q={"n":1,"token" :<redacted>,"m":2}'],
  ['/a?q={"token":["MARK", "MARK"]}', '/a?q={"token":<redacted>'],
  ['/a?q={"\\u0074oken":"MARK"}', "/a?q=<redacted>"],
  ["/a?q=%7B%22token%22%3A%22MARK%22%7D&m=2", "/a?q=<redacted>&m=2"],
  ["/a?q=%257B%2522token%2522%253A%2522MARK%2522%257D", "/a?q=<redacted>"],
  ["/a?q=%7B%22a%22%3A%22%7B%5C%22token%5C%22%3A%5C%22MARK%20MARK%5C%22%7D%22%7D", "/a?q=<redacted>"],
  ["/a?q={'token': 'MARK MARK'}", "/a?q={'token':<redacted>}"],
  ["/a?q=token:MARK&n=1", "/a?q=token:<redacted>&n=1"],
  ["/a?token:MARK", "/a?token:<redacted>"],
  ["/a?=token=MARK&n=1", "/a?=token=<redacted>&n=1"],
  ["/a?a=b=token=MARK", "/a?a=b=token=<redacted>"],
  ["https:\\\\user:MARK@a.example/", "https:\\\\<redacted>@a.example/"],
  ["https:/user:MARK@a.example/", "https:/<redacted>@a.example/"],
  ["https:user:MARK@a.example/", "https:<redacted>@a.example/"],
  ["/a?next=https:user:MARK@a.example", "/a?next=https:<redacted>@a.example"],
  ["mailto:a@a.example", "mailto:a@a.example"],
  ["a.example:8443", "a.example:8443"],
  ["/v1/models/m:generateContent", "/v1/models/m:generateContent"],
])("%s is shown as %s", (text, shown) => {
  expect(redactPath(text)).toBe(shown);
});

test.each([
  ["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"],
  ["agent/1 sk-proj-MARKMARKMARKMARK (x)", "agent/1 <redacted> (x)"],
  ["agent/1 (+https://u:MARK@a.example/?token=MARK)", "agent/1 (+https://<redacted>@a.example/?token=<redacted>"],
  ["Bearer MARK", "<redacted>"],
  ["sk-proj-MARKMARKMARKMARK.example.com", "<redacted>"],
  ["/v1/ghp_MARKMARKMARKMARK/x", "/v1/<redacted>/x"],
])("the text %s is shown as %s", (text, shown) => {
  expect(redactText(text)).toBe(shown);
});

test("the cheap test misses nothing that the full inspection finds", () => {
  const piece = fc.constantFrom(
    ...[
      "/",
      " ",
      ";",
      "?",
      "a",
      "token",
      "=",
      ":",
      '"',
      "{",
      "\\u0074",
      "https:",
      "MARKMARKMARKMARKMARK",
      "sk-",
      "rk_",
      "pk-",
      "ghp_",
      "gsk_",
      "xai-",
      "glrt-",
      "ya29.",
      "ASIA",
      "dapi",
      "npm_",
      "-----BEGIN KEY",
      "gho-",
      "github_pat_",
    ],
    ...[
      "xoxb-",
      "glpat-",
      "hf_",
      "AKIA",
      "AIza",
      "eyJ",
      "Bearer ",
      "BASIC ",
      "dpop\t",
      "//",
      "@",
      "u:",
      "%3D",
      "&",
      "#",
    ],
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const text = pieces.join("");
      if (redactPath(text) !== text || isSecretValue(text)) expect(redactText(text)).not.toBe(text);
      else expect(redactText(text)).toBe(text);
      expect(isSecretValue(redactText(text))).toBe(false);
    }),
    { numRuns: 2_000 },
  );
});

/** Texts that are expensive to inspect, each as long as a request head may be. */
const costly = [
  ...["eyJ", "-eyJa", "?a=%2525", "//", ";a=1", ",%=%", ",a=%", ",%41=%41", "?%25%41=%25%34", ",a=%252561%3D", "//@"],
  ...[
    ",é=%C3%A9%C3",
    " sk-",
    "?a=%2F%2F",
    "=@",
    "?A=",
    ":a",
    "a:",
    "a=",
    '"a',
    "a'",
    "http:@",
    "http:a",
    '{"a":',
    "\\u0074:",
  ],
].map((unit) => unit.repeat(Math.ceil(65_536 / unit.length)));

test.each([...costly, ...costly.map((text) => `${text.slice(0, maxShownLength - 1)} ${text}`)])(
  "a text of 64 KiB costs no more than reading some 1,000,000 characters",
  (text) => {
    // Each costs about 1, and up to 9 on a busy machine. Escapes that throw cost 800; work that grows with the square
    // of the length costs more.
    expect(relativeCost(() => redactText(text), 100)).toBeLessThan(100);
    expect(relativeCost(() => redactNamed("a", text), 100)).toBeLessThan(100);
  },
);

/** Texts in which a client or a backend may put `secret`. */
const places: readonly ((secret: string) => string)[] = [
  (secret) => `token=${secret}`,
  (secret) => `q=token:${secret}`,
  (secret) => `=token=${secret}`,
  (secret) => `q=${JSON.stringify({ n: 1, token: secret })}`,
  (secret) => `q=${JSON.stringify([{ api_key: [secret, secret] }])}`,
  (secret) => `q=${JSON.stringify({ a: JSON.stringify({ password: secret }) })}`,
  (secret) => `next=https://user:${secret}@h/x`,
  (secret) => `next=https:\\\\user:${secret}@h/x`,
  (secret) => `sk-proj-${secret}${secret}${secret}`,
];

test("a planted secret is never shown, however often it is encoded", () => {
  const encoded = (text: string, times: number): string =>
    times === 0 ? text : encodeURIComponent(encoded(text, times - 1));
  const query = fc.tuple(fc.constantFrom(...places), fc.nat({ max: 3 })).map(([place, times]) => {
    const text = place("MARKMARK");
    const at = text.indexOf("=");
    return at <= 0 ? encoded(text, times) : `${text.slice(0, at + 1)}${encoded(text.slice(at + 1), times)}`;
  });
  const url = fc
    .tuple(fc.constantFrom("/a?", "https://h/a?n=1&", "//h/a#", "/a;", "/a?n=1&m=2&"), query)
    .map((parts) => parts.join(""));
  const show = fc.constantFrom(redactPath, redactText, (text: string) => redactNamed("referer", text));
  fc.assert(
    fc.property(url, show, (text, show) => {
      expect(show(text)).not.toContain("MARK");
    }),
    { numRuns: 2_000 },
  );
});

test("invalid escapes throw nothing", () => {
  const decode = vi.spyOn(globalThis, "decodeURIComponent");
  onTestFinished(() => decode.mockRestore());
  expect(redactText(",%=%")).toBe(",%=%");
  expect(redactPath("/a?%zz&x%zzto%6ben=MARK")).toBe("/a?%zz&x%zzto%6ben=<redacted>");
  expect(redactPath("/a?%ff%74oken=MARK&b=%ff")).toBe("/a?%ff%74oken=<redacted>&b=%ff");
  expect(decode).not.toHaveBeenCalled();
});

describe("a text of more than 2,048 characters", () => {
  test("is cut, and the text after the cut is not read", () => {
    const long = `/${"word/".repeat(500)}`;
    expect(redactText(long)).toBe(`/${"word/".repeat(409)}…`);
    const piece = fc.constantFrom("/", " ", ",", "a", "token=", "=", "%", "%41", "x@", "//", "sk-", "?");
    const pieces = fc.array(piece, { minLength: 1, maxLength: 12 });
    const show = fc.constantFrom(redactText, redactPath, (value: string) => redactNamed("a", value));
    fc.assert(
      fc.property(pieces, show, (pieces, show) => {
        const whole = pieces.join("").repeat(maxShownLength + 2);
        expect(show(whole)).toBe(show(whole.slice(0, maxShownLength + 1)));
        expect(show(whole)).toMatch(/(?:…|<redacted>)$/);
      }),
      { numRuns: 200 },
    );
  });

  test.each([
    "sk-proj-MARKMARKMARKMARK",
    "eyJMARKMARKMARKMARKMARK",
    "//user:MARKMARK@a.example/",
    "?token=MARKMARK",
    "?next=https%3A%2F%2Fuser:MARKMARK@h",
    "?next=https%3A%2F%2Fh%2F%3Ftoken%3DMARKMARK",
    "?next=Bearer%20MARKMARK",
    "?next=%73k-proj-MARKMARKMARKMARK",
    ";%74oken=MARKMARK",
  ])("shows no part of the secret in %s, wherever the cut is", (secret) => {
    const shows = [redactText, redactPath, (value: string) => redactNamed("a", value)];
    for (let before = maxShownLength - secret.length - 2; before <= maxShownLength; before++) {
      for (const [padding, show] of shows.flatMap((show) => [
        ["-", show] as const,
        ["a ", show] as const,
        ["/", show] as const,
      ])) {
        const shown = show(`${padding.repeat(before).slice(0, before - 1)} ${secret}/${"b".repeat(40)}`);
        expect(shown).not.toMatch(/M|AR|K/);
      }
    }
  });

  test("does not show its parameters after the hundredth", () => {
    const shown = redactPath(`/?${"a=1&".repeat(150)}token=MARK`);
    expect(shown).toBe(`/?${"a=1&".repeat(100)}a=<redacted>`);
  });
});

test.each([
  ["/sk-proj-MARKMARKMARKMARK?n=1", "/<redacted>?n=1"],
  ["/a?sk-proj-MARKMARKMARKMARK&n=1", "/a?<redacted>&n=1"],
  ["/a#sk-proj-MARKMARKMARKMARK", "/a#<redacted>"],
  ["/sk-proj-MARKMARKMARKMARK;v=1/b", "/<redacted>;v=1/b"],
  ["/%73k-proj-MARKMARKMARKMARK?n=1", "/<redacted>?n=1"],
  ["/a?n=1&b", "/a?n=1&b"],
  ["/a?%252525256eame=MARK", "/a?%252525256eame=<redacted>"],
])("a credential next to parameters is not shown: %s", (path, shown) => {
  expect(redactPath(path)).toBe(shown);
});

test.each(["gsk_", "xai-", "glrt-", "ya29.", "ASIA", "dapi0123456789abcdef", "npm_"])(
  "a key that begins with %s is not shown in a user agent, a path or a header",
  (prefix) => {
    const key = `${prefix}0123456789abcdef`;
    expect(redactText(`client/1.0 ${key}`)).not.toContain(key);
    expect(redactText(`/keys/${key}/x`)).not.toContain(key);
    expect(redactPath(`/keys/${key}?q=${key}`)).not.toContain(key);
    expect(redactNamed("x-user", key)).toBe("<redacted>");
  },
);

test("an expression is as secret as the values that it reads", () => {
  expect(isSecretExpression('request.headers["x-api-key"]')).toBe(true);
  expect(isSecretExpression("request.headers.authorization")).toBe(true);
  expect(isSecretExpression('request.headers["x-team"] + source.address')).toBe(false);
});

test("headers and parameters keep their names and their order", () => {
  expect(redactHeaders([":method", "GET", "X-Api-Key", "secret", "accept", "*/*"])).toEqual([
    { name: "X-Api-Key", value: "<redacted>" },
    { name: "accept", value: "*/*" },
  ]);
  expect(redactPath("/v1?n=1&access%5Ftoken=secret&b")).toBe("/v1?n=1&access%5Ftoken=<redacted>&b");
  expect(redactPath("/v1?%zz=1")).toBe("/v1?%zz=1");
});

test("a secret is shown as a fingerprint, with its last characters only if it is long", () => {
  // printf %s canary-client-api-key | sha256sum | cut -c 1-8
  expect(redactValue("canary-client-api-key", true)).toEqual({ text: "sha256:ad81f266…-key", isSecret: true });
  expect(redactValue("short", true).text).toMatch(/^sha256:[0-9a-f]{8}…$/);
  expect(redactValue("blue", false)).toEqual({ text: "blue", isSecret: false });
  expect(redactValue("é".repeat(100), false).text).toBe("é".repeat(32));
  expect(redactValue(`${"a".repeat(60)} sk-proj-MARKMARKMARKMARK`, false).text).toMatch(/^sha256:/);
  expect(redactValue("/v1/files?limit=5&api_key=MARK", false).text).toMatch(/^sha256:/);
  expect(redactValue("https://user:MARK@host/", false).isSecret).toBe(true);
  // Some show the whole value if no part of it is secret.
  expect(redactValue(`/${"a".repeat(100)}?api_key=MARK`, false).isSecret).toBe(true);
  expect(redactValue("/v1/files?limit=5", false)).toEqual({ text: "/v1/files?limit=5", isSecret: false });
});

test("configured names are secrets, however many there are, and so are the last ones that were configured before", () => {
  onTestFinished(() => setSecretNames([]));
  const others = Array.from({ length: 2_000 }, (_, at) => `x-other-${at}`);
  setSecretNames(others);
  setSecretNames([...others, "X-Number"]);
  expect([isSecretName("x-number"), isSecretName("x-other-0"), isSecretName("x-number-2")]).toEqual([
    true,
    true,
    false,
  ]);
  setSecretNames(["x-number"]);
  expect([isSecretName("x-number"), isSecretName("x-other-0"), isSecretName("x-other-1999")]).toEqual([
    true,
    false,
    true,
  ]);
  // Clients send it for some time after the edit.
  setSecretNames([]);
  expect(isSecretName("x-number")).toBe(true);
});
