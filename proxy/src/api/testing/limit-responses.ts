/**
 * Fields `headers` and `denied` of `rateLimit` that the API server and the parser both accept, and that both reject.
 */

type Case = readonly [name: string, fields: object];

const header = (name: unknown, value: unknown = "a") => ({ denied: { headers: [{ name, value }] } });
const times = (count: number) => Array.from({ length: count }, (_, at) => ({ name: `x-${at}`, value: "a" }));

export const acceptedResponses: readonly Case[] = [
  ["no family", { headers: [] }],
  ["all families", { headers: ["Ietf", "OpenAI", "XRateLimit"] }],
  ["no field of denied", { denied: {} }],
  ["a problem", { denied: { format: "Problem", status: 400, body: "", headers: [] } }],
  ["an error of a provider", { denied: { format: "Provider", status: 599, body: "☃".repeat(2_048) } }],
  [
    "a content type of a text",
    { denied: { body: "{}", headers: [{ name: "Content-Type", value: "application/json" }] } },
  ],
  ["16 headers", { denied: { headers: times(16) } }],
  ["a header with the longest name and value", header("x".repeat(64), "a".repeat(512))],
  ["a header value with spaces inside", header("link", '<https://a.example>; rel="help"')],
  ["a header name with all characters of a token", header("!#$%&'*+-.^_`|~09aZ")],
  [
    "headers that begin like others",
    {
      denied: {
        headers: [
          { name: "x-rate", value: "a" },
          { name: "te-a", value: "a" },
        ],
      },
    },
  ],
];

export const rejectedResponses: readonly Case[] = [
  ["an unknown family", { headers: ["IETF"] }],
  ["a family twice", { headers: ["Ietf", "Ietf"] }],
  ["four families", { headers: ["Ietf", "OpenAI", "XRateLimit", "Ietf"] }],
  ["families as a text", { headers: "Ietf" }],
  ["an unknown format", { denied: { format: "Json" } }],
  ["an unknown field of denied", { denied: { statusCode: 429 } }],
  ...[200, 302, 399, 401, 405, 407, 408, 421, 425, 426, 600, 429.5, "429"].map(
    (status): Case => [`status ${JSON.stringify(status)}`, { denied: { status } }],
  ),
  ["a body too long", { denied: { body: "a".repeat(2_049) } }],
  ["a body that is no text", { denied: { body: { error: "a" } } }],
  ["17 headers", { denied: { headers: times(17) } }],
  ["headers as a map", { denied: { headers: { "x-plan": "free" } } }],
  [
    "a header twice",
    {
      denied: {
        headers: [
          { name: "X-Plan", value: "a" },
          { name: "x-plan", value: "b" },
        ],
      },
    },
  ],
  ["a header without a value", { denied: { headers: [{ name: "x-plan" }] } }],
  ["an empty value", header("x-plan", "")],
  ["a value too long", header("x-plan", "a".repeat(513))],
  ...[" a", "a ", "a\r\nset-cookie: b", "a\nb", "a\u0000", "a\tb", "é"].map(
    (value): Case => [`the value ${JSON.stringify(value)}`, header("x-plan", value)],
  ),
  ["a name too long", header("x".repeat(65))],
  ...["", "a b", "a:", ":status", "é", "a\r\n"].map((name): Case => [`the name ${JSON.stringify(name)}`, header(name)]),
  ...[
    ...["Connection", "keep-alive", "proxy-connection", "Transfer-Encoding", "upgrade", "TE", "trailer"],
    ...["content-length", "content-encoding", "host", "date", "x-request-id", "Retry-After", "x-envoy-ratelimited"],
    ...["RateLimit", "ratelimit-policy", "ratelimit-reset", "X-RateLimit-Limit", "x-ratelimit-reset-tokens"],
    ...["access-control-allow-origin", "grpc-status", "Grpc-Message", "x-data-bin"],
  ].map((name): Case => [`a header that the gateway writes, ${name}`, header(name)]),
  [
    "a content type of a problem",
    { denied: { format: "Problem", headers: [{ name: "Content-Type", value: "text/plain" }] } },
  ],
  [
    "a content type of a provider's error",
    { denied: { format: "Provider", headers: [{ name: "content-type", value: "text/plain" }] } },
  ],
];
