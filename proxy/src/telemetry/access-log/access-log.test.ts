import { Logs } from "@gatewayproxy/runtime/log";
import type { LogRecord } from "@gatewayproxy/runtime/log-record";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { isSecretExpression } from "@gatewayproxy/runtime/redaction";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseExpression } from "../../cel/expression.ts";
import { logFieldKinds } from "../../cel/log-fields.ts";
import type { RequestRecord } from "../request-record.ts";
import { limitOf, recordOf, viewedOf } from "../testing/records.ts";
import { type AccessLogSettings, createAccessLog, defaultAccessLog, parseFilter } from "./access-log.ts";
import { parseFields } from "./fields.ts";
import { accessLogModule, lineOf } from "./log-line.ts";
import type { AccessLogMode } from "./selection.ts";
import { parseTemplate } from "./template.ts";

interface Logging {
  readonly settings?: Partial<AccessLogSettings>;
  readonly level?: "info" | "warn";
  readonly rawHeaders?: readonly string[];
  readonly responseHeaders?: readonly string[];
  readonly random?: () => number;
}

function loggedWith(partial: Partial<RequestRecord>, logging: Logging = {}) {
  const { settings = {}, level = "info", rawHeaders = [], responseHeaders, random = () => 0 } = logging;
  const lines: string[] = [];
  const records: LogRecord[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const clock = new FakeClock(0);
  const logger = new Logs({ filter: { level, modules: new Map() }, clock, destination }).logger(accessLogModule);
  const sink = { add: (added: readonly LogRecord[]) => void records.push(...added), close: () => Promise.resolve() };
  const options = { settings: { ...defaultAccessLog, ...settings }, logger, destination, clock, random };
  const record = recordOf(partial);
  const viewed = viewedOf(record, rawHeaders, responseHeaders);
  createAccessLog(options)(record, viewed);
  createAccessLog({ ...options, destination: undefined, records: sink })(record, viewed);
  return { lines, records };
}

function logged(record: Partial<RequestRecord>, mode: AccessLogMode = "on", level: "info" | "warn" = "info"): string[] {
  return loggedWith(record, { settings: { mode }, level }).lines;
}

/** The line of a request without its newline. */
function lineWith(
  settings: Partial<AccessLogSettings>,
  record: Partial<RequestRecord>,
  rawHeaders?: readonly string[],
) {
  return loggedWith(record, { settings, ...(rawHeaders && { rawHeaders }) }).lines[0]?.trimEnd();
}

function fieldsOf(record: Partial<RequestRecord>): Record<string, unknown> {
  return JSON.parse(logged(record)[0] ?? "{}") as Record<string, unknown>;
}

describe("the access log", () => {
  test("writes one line with all fields in order", () => {
    const usage = { input: 5, output: 7, total: 12, model: "gpt-x", estimated: false };
    expect(logged({ userAgent: "curl/8", usage, durationMs: 12.34567 })).toEqual([
      `${JSON.stringify({
        level: "info",
        time: "1970-01-01T00:00:00.000Z",
        module: "proxy::access",
        requestId: "id-1",
        source: "192.0.2.7",
        method: "GET",
        scheme: "http",
        authority: "shop.example.com",
        path: "/items",
        httpVersion: "1.1",
        userAgent: "curl/8",
        listener: "default/gateway/http",
        route: "default/shop",
        rule: "default/shop/0",
        backend: "Service/default/shop:80",
        endpoint: "10.0.0.1:8080",
        status: 200,
        durationMs: 12.346,
        upstreamMs: 10,
        requestBytes: 0,
        responseBytes: 5,
        inputTokens: 5,
        outputTokens: 7,
        totalTokens: 12,
        model: "gpt-x",
        msg: "request",
      })}\n`,
    ]);
  });

  test("has the format of the loggers' lines, so that one parser reads both", () => {
    const lines: string[] = [];
    const destination = { write: (line: string) => void lines.push(line) };
    const logs = new Logs({ filter: { level: "info", modules: new Map() }, clock: new FakeClock(0), destination });
    logs.logger(accessLogModule).info("request");
    const [start, end] = [
      '{"level":"info","time":"1970-01-01T00:00:00.000Z","module":"proxy::access",',
      '"msg":"request"}\n',
    ];
    expect(lines[0]).toBe(start + end);
    expect(logged({})[0]?.startsWith(start)).toBe(true);
    expect(logged({})[0]?.endsWith(end)).toBe(true);
  });

  test("has the parts of the usage that were reported", () => {
    const details = { cachedInputTokens: 3, cacheCreationTokens: 1, reasoningTokens: 2 };
    expect(fieldsOf({ usage: { input: 5, output: 7, total: 12, ...details, estimated: false } })).toMatchObject(
      details,
    );
    expect(logged({ usage: { input: 5, output: 7, total: 12, estimated: false } })[0]).not.toMatch(/cache|reasoning/);
  });

  test("has both names of a model, the client's only if the backend gets another", () => {
    expect(logged({ clientModel: "gpt-4", requestModel: "gpt-4o" })[0]).toContain(
      '"clientModel":"gpt-4","requestModel":"gpt-4o"',
    );
    expect(logged({ clientModel: "gpt-4", requestModel: "gpt-4" })[0]).not.toContain("clientModel");
    expect(fieldsOf({ clientModel: "unknown" })).toMatchObject({ clientModel: "unknown" });
    expect(fieldsOf({ clientModel: "m".repeat(2_000) })["clientModel"]).toHaveLength(1_025);
  });

  test("has the number of attempts where there was more than one", () => {
    expect(logged({ attempts: 3 })[0]).toContain('"endpoint":"10.0.0.1:8080","calls":3,');
    expect(logged({ attempts: 1 })[0]).not.toContain("calls");
  });

  test("has the provider that has responded, and why others have not", () => {
    const failovers = [{ provider: "Backend/default/openai", cause: "status 429" }];
    expect(fieldsOf({ provider: "Backend/default/azure", failovers })).toMatchObject({
      provider: "Backend/default/azure",
      failovers: ["Backend/default/openai: status 429"],
    });
    expect(logged({})[0]).not.toMatch(/provider|failovers/);
  });

  test("leaves out the query, which may hold a key", () => {
    expect(logged({ path: "/v1/models?api_key=secret" })[0]).not.toContain("secret");
    expect(fieldsOf({ path: "/v1/models?api_key=secret" })["path"]).toBe("/v1/models");
  });

  test("names the entries that denied, and those that would have denied", () => {
    const enforced = limitOf({ entry: 1 });
    const shadow = limitOf({ entry: 2, mode: "Shadow", target: "Gateway/default/gateway" });
    const decisions = [
      { limit: limitOf({}), outcome: "allowed" },
      { limit: enforced, outcome: "denied" },
      { limit: shadow, outcome: "shadowDenied" },
    ] as const;
    expect(fieldsOf({ status: 429, reason: "RateLimited", decisions })).toMatchObject({
      reason: "RateLimited",
      deniedBy: ["default/limits#1 HTTPRoute/default/shop"],
      shadowDeniedBy: ["default/limits#2 Gateway/default/gateway"],
    });
  });

  test("marks estimated tokens", () => {
    expect(fieldsOf({ usage: { total: 3, estimated: true } })).toMatchObject({ totalTokens: 3, usageEstimated: true });
  });

  test("has the reason for which the tokens of a response are unknown", () => {
    expect(fieldsOf({ usageUnread: "undecodable" })).toMatchObject({ usageUnread: "undecodable" });
  });

  test("leaves out the fields of later stages of a request", () => {
    const lost = { listener: undefined, route: undefined, rule: undefined, backend: undefined, endpoint: undefined };
    const fields = fieldsOf({ ...lost, upstreamMs: undefined, status: 404, reason: "RouteNotFound" });
    expect(Object.keys(fields)).not.toEqual(expect.arrayContaining(["listener"]));
    expect(fields).toMatchObject({ status: 404, reason: "RouteNotFound" });
    expect(fields).not.toHaveProperty("upstreamMs");
  });

  test("stays one line whatever the client sends, and of bounded length", () => {
    const hostile = `a\n{"level":"info"}\u001b[31m${"x".repeat(20_000)}`;
    const lines = logged({ path: `/${hostile}`, userAgent: hostile, authority: hostile, method: hostile });
    expect(lines[0]?.trimEnd()).not.toContain("\n");
    expect(lines[0]).not.toContain("\u001b");
    expect(lines[0]?.length).toBeLessThan(5_500);
  });

  test.each<[string, Partial<RequestRecord>, number]>([
    ["a served request", {}, 0],
    ["a client's mistake that the backend found", { status: 400 }, 0],
    ["a failure of the backend", { status: 500 }, 1],
    ["a denied request", { status: 429, reason: "RateLimited" }, 1],
    ["a client that left", { status: 0, reason: "ClientDisconnect" }, 1],
    ["a denial in shadow", { decisions: [{ limit: limitOf({ mode: "Shadow" }), outcome: "shadowDenied" }] }, 1],
  ])("in the mode denied-and-failed writes for %s accordingly", (_, record, count) => {
    expect(logged(record, "denied-and-failed")).toHaveLength(count);
  });

  test("writes nothing when it is off or its level is", () => {
    expect(logged({}, "off")).toEqual([]);
    expect(logged({}, "on", "warn")).toEqual([]);
  });
});

describe("chosen fields", () => {
  const headers = ["X-Tenant", "acme", "Authorization", "Bearer abc", "X-Api-Key", "0123456789abcdef0123"];

  test("are those of the list, between the fields of each line, in its order", () => {
    expect(lineWith({ fields: 'status; tenant=request.headers["x-tenant"]\nmethod;time' }, {}, headers)).toBe(
      '{"level":"info","time":"1970-01-01T00:00:00.000Z","module":"proxy::access","status":200,"tenant":"acme","method":"GET","msg":"request"}',
    );
  });

  test("are all, without some and with others", () => {
    const all = JSON.parse(lineWith({ fields: "*" }, {}) ?? "") as Record<string, unknown>;
    const chosen = JSON.parse(lineWith({ fields: "*; -source; slow = log.durationMs > 5" }, {}) ?? "") as object;
    const { source, msg, ...others } = all;
    expect(source).toBe("192.0.2.7");
    expect(chosen).toEqual({ ...others, slow: true, msg });
  });

  test.each<[string, string, Partial<RequestRecord>, unknown]>([
    ["a number", "log.status / 100", {}, 2],
    ["a fraction", "log.durationMs / 8.0", {}, 1.5],
    ["a condition", "log.reason == ''", {}, true],
    ["a number of the usage", "llm.totalTokens + 1", { usage: { total: 3, estimated: false } }, 4],
    ["a model", "llm.requestModel", { requestModel: "gpt-5" }, "gpt-5"],
    [
      "a list",
      "log.deniedBy",
      { decisions: [{ limit: limitOf({}), outcome: "denied" }] },
      ["default/limits#0 HTTPRoute/default/shop"],
    ],
    ["a renamed field", "log.reason", { reason: "RateLimited" }, "RateLimited"],
    ["a renamed field that is absent", "log.reason", {}, undefined],
    ["a header that is absent", 'request.headers["x-none"]', {}, undefined],
    ["an integer beyond those of JSON", "9007199254740993 + 0", {}, "9007199254740993"],
    ["infinity", "1.0 / 0.0", {}, "Infinity"],
    ["a failure", "1 / (log.status - 200)", {}, undefined],
    ["texts with separators", '"a;b}" + \'c;d\' + r"\\" + """;"""', {}, "a;b}c;d\\;"],
  ])("%s keeps its type", (_, expression, record, value) => {
    expect(JSON.parse(lineWith({ fields: `x=${expression}` }, record) ?? "")).toMatchObject(
      value === undefined ? expect.not.objectContaining({ x: expect.anything() as unknown }) : { x: value },
    );
  });

  test("hold no credential: by its name as a fingerprint, by its form not at all", () => {
    const line = lineWith(
      {
        fields: 'key=request.headers["x-api-key"]; auth=request.headers.authorization; note=request.headers["x-note"]',
      },
      {},
      [...headers, "X-Note", "Bearer abcdefgh"],
    );
    expect(JSON.parse(line ?? "")).toMatchObject({
      key: expect.stringMatching(/^sha256:[0-9a-f]{8}…0123$/) as unknown,
      auth: expect.stringMatching(/^sha256:[0-9a-f]{8}…$/) as unknown,
      note: "<redacted>",
    });
  });

  test("read the headers of the response, redacted as those of requests", () => {
    const fields = [
      ...['cache=response.headers["x-cache"]', 'links=response.headers["link"]', "type=response.headers.server"],
      ...['cookie=response.headers["set-cookie"]', 'next=response.headers["location"]', 'key=response.headers["x-id"]'],
      ...[
        'none=response.headers["x-none"]',
        'any="x-cache" in response.headers',
        'hit=response.headers["x-cache"] == "HIT"',
      ],
      'long=response.headers["x-long"]',
    ].join(";");
    const responseHeaders = [
      ...[
        "X-Cache",
        "HIT",
        "Link",
        "</a>",
        "link",
        "</b>",
        "Server",
        "nginx",
        "Set-Cookie",
        "session=0123456789abcdef",
      ],
      ...["Location", "/in?token=SECRET", "X-Id", "sk-0123456789abcdef0123", "X-Long", "y ".repeat(32_768)],
    ];
    const { lines, records } = loggedWith({}, { settings: { fields }, responseHeaders });
    const { level, time, module, msg, ...line } = JSON.parse(lines[0] ?? "") as Record<string, unknown>;
    expect([level, time, module, msg]).toEqual(["info", "1970-01-01T00:00:00.000Z", "proxy::access", "request"]);
    expect(line).toEqual({
      ...{ cache: "HIT", links: "</a>, </b>", type: "nginx", any: true, hit: true },
      cookie: expect.stringMatching(/^sha256:[0-9a-f]{8}…cdef$/) as unknown,
      ...{ next: "/in?token=<redacted>", key: "<redacted>", long: expect.stringMatching(/^(?:y ){512}…$/) as unknown },
    });
    expect(records[0]?.attributes).toMatchObject({ cache: "HIT", next: "/in?token=<redacted>" });
  });

  test("of one request share a bound of their work", () => {
    const costly = 'request.headers["x"].replace("a", "bb").replace("b", "cc").replace("c", "dd").size()';
    const fields = Array.from({ length: 40 }, (__, at) => `f${at}=${costly} + ${at}`).join(";");
    const line = JSON.parse(lineWith({ fields: `${fields};last=1` }, {}, ["x", "a".repeat(200)]) ?? "") as object;
    expect(line).toHaveProperty("f0");
    expect(line).not.toHaveProperty("f39");
    expect(line).toHaveProperty("msg", "request");
  });
});

test("headers of the response are known at the end only, and have names in lower case", () => {
  const { problems } = parseFields('a=response.headers["X-Cache"]') as { problems: readonly { message: string }[] };
  expect(problems[0]?.message).toContain('"X-Cache" never matches, accepted are header names in lower case');
  expect(parseExpression('response.headers["x-cache"]')).toMatchObject({ ok: false });
});

describe("a list of fields is rejected", () => {
  test.each([
    [
      "stauts",
      'item 1: "stauts" is not a field of the access log; did you mean status?; a new field is name=EXPRESSION',
    ],
    ["*;-time", 'item 2: "time" is not a field'],
    ["status;a b=1", 'item 2: "a b" is not the name of a field'],
    ["msg=log.path", 'item 1: each line has a field "msg" already'],
    ["x=log.stauts", 'item 1: field "x": expression at column 1: unknown variable "log.stauts", known are '],
    ["x=[1]", 'item 1: field "x": expression has the type list'],
    [Array.from({ length: 65 }, (_, at) => `f${at}=1`).join(";"), "65 fields are added, at most 64 are accepted"],
  ])("%s", (list, message) => {
    const parsed = parseFields(list);
    expect(parsed.ok ? "" : parsed.problems[0]?.message).toContain(message);
  });
});

describe("lines of text", () => {
  test("have values in place of expressions", () => {
    const template =
      '[${log.time}] "${log.method} ${request.path}" ${log.status} ${log.durationMs}ms ${log.reason} $${x}';
    expect(lineWith({ template }, {})).toBe('[1970-01-01T00:00:00.000Z] "GET /items" 200 12ms - ${x}');
  });

  test("have expressions with braces and quotes", () => {
    expect(lineWith({ template: '${{"}": log.method}["}"]}|${log.path == "}" ? 1 : 2}' }, {})).toBe("GET|2");
  });

  test.each([
    ["%REQ(:path)%", "the template has no ${EXPRESSION}, such as ${log.status}"],
    ["${log.path", "the expression at column 3 has no end; accepted is ${EXPRESSION}"],
    ["a ${log.pth}", 'column 5: expression at column 1: unknown variable "log.pth"'],
    ["a\n${log.path}", "column 2 has the control character \\x0a, and a line can have none"],
    ["x".repeat(9_000), "the template has 9000 characters, at most 8192 are accepted"],
  ])("are not made by the template %s", (template, message) => {
    const parsed = parseTemplate(template);
    expect(parsed.ok ? "" : parsed.problems[0]?.message).toContain(message);
  });

  test("cannot be forged by a client", () => {
    const text = fc.string({ unit: "binary-ascii", maxLength: 30 });
    const hostile = fc.constantFrom(
      '" 200 "',
      "\n",
      "\r\n[x] ",
      "\\",
      '\\"',
      "\u2028",
      "\u0085",
      "\u202e",
      "\u001b[2K",
      "-",
    );
    const value = fc.array(fc.oneof(text, hostile), { maxLength: 4 }).map((parts) => parts.join(""));
    const template = '"${log.method}" "${log.userAgent}" "${request.headers.x}" ${log.status}';
    const lines: string[] = [];
    const log = createAccessLog({
      settings: { ...defaultAccessLog, template },
      logger: { isLevelEnabled: () => true },
      destination: { write: (line) => void lines.push(line) },
      clock: new FakeClock(0),
      random: () => 0,
    });
    fc.assert(
      fc.property(value, value, value, (method, userAgent, header) => {
        lines.length = 0;
        const record = recordOf({ method, userAgent });
        log(record, viewedOf(record, ["x", header]));
        expect(lines).toHaveLength(1);
        // Each value is the text between two quotes, whatever it is.
        expect(lines[0]).toMatch(/^(?:"(?:[^"\\]|\\["\\xu])*" ){3}200\n$/);
        expect(lines[0]?.slice(0, -1)).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e]/);
      }),
    );
  });

  test("show different values as different texts", () => {
    const shown = ["a\\x0a", "a\n", 'a\\"', 'a"'].map((userAgent) =>
      lineWith({ template: "${log.userAgent}" }, { userAgent }),
    );
    expect(new Set(shown).size).toBe(shown.length);
  });
});

describe("the filter", () => {
  const filtered = (filter: string, record: Partial<RequestRecord> = {}): number =>
    loggedWith(record, { settings: { filter } }).lines.length;

  test.each<[string, Partial<RequestRecord>, number]>([
    ["log.status >= 400", {}, 0],
    ["log.status >= 400", { status: 404 }, 1],
    ['log.reason == "RateLimited" || log.durationMs > 1000', {}, 0],
    ['log.reason == "RateLimited" || log.durationMs > 1000', { durationMs: 1_500 }, 1],
    ["!log.path.startsWith('/healthz')", { path: "/healthz?x" }, 0],
    ["log.grpcStatus != 0", { grpcStatus: 14 }, 1],
    ["log.deniedBy.size() > 0", {}, 0],
  ])("%s", (filter, record, count) => {
    expect(filtered(filter, record)).toBe(count);
  });

  test("without a value leaves no request out, so that a client cannot hide", () => {
    expect(filtered('request.headers["user-agent"] != "probe"')).toBe(1);
    expect(filtered("1 / (log.status - 200) == 1")).toBe(1);
  });

  test("must be a condition", () => {
    expect(parseFilter("log.status")).toMatchObject({ ok: false });
    expect(parseFilter("log.status == 200")).toMatchObject({ ok: true });
  });
});

describe("a ratio of successes", () => {
  const kept = (record: Partial<RequestRecord>, random: number): boolean =>
    loggedWith(record, { settings: { successRatio: 0.1, slowMs: 1_000 }, random: () => random }).lines.length === 1;

  test("decides about successes", () => {
    expect(kept({}, 0.09)).toBe(true);
    expect(kept({}, 0.1)).toBe(false);
  });

  test.each<[string, Partial<RequestRecord>]>([
    ["denied", { status: 429, reason: "RateLimited" }],
    ["would have been denied", { decisions: [{ limit: limitOf({ mode: "Shadow" }), outcome: "shadowDenied" }] }],
    ["failed", { status: 502 }],
    ["got an error of the backend", { status: 404 }],
    ["got an error of gRPC", { grpcStatus: 14 }],
    ["was left by its client", { reason: "ClientDisconnect" }],
    ["was slow", { durationMs: 1_000 }],
  ])("does not decide about a request that %s", (_, record) => {
    expect(kept(record, 0.99)).toBe(true);
  });

  test("without a duration ignores slow requests", () => {
    const settings = { successRatio: 0, slowMs: 0 };
    expect(loggedWith({ durationMs: 1e6 }, { settings, random: () => 0.5 }).lines).toEqual([]);
  });
});

describe("records of OTLP", () => {
  const place = { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7" };

  test("have the trace, and the fields as attributes of the conventions", () => {
    const usage = { input: 5, output: 7, total: 12, model: "gpt-x", estimated: false };
    const [record] = loggedWith({ ...place, usage }).records;
    expect(record).toMatchObject({
      ...place,
      timeMs: 0,
      eventName: "gatewayproxy.request",
      body: "request",
      attributes: {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "url.path": "/items",
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.response.model": "gpt-x",
        "gatewayproxy.request_id": "id-1",
      },
    });
    expect(Object.keys(record?.attributes ?? {})).not.toContain("trace_id");
  });

  test("have chosen fields, and the line of text as their body", () => {
    const settings = { fields: "status; team=request.headers.team", template: "${log.method} ${log.path}" };
    const [record] = loggedWith(place, { settings, rawHeaders: ["Team", "a"] }).records;
    expect(record?.attributes).toEqual({ "http.response.status_code": 200, team: "a" });
    expect(record?.body).toBe("GET /items");
  });

  test("are chosen as lines are", () => {
    expect(loggedWith({}, { settings: { mode: "denied-and-failed" } }).records).toEqual([]);
    expect(loggedWith({}, { settings: { filter: "log.status == 500" } }).records).toEqual([]);
    expect(loggedWith({}, { level: "warn" }).records).toEqual([]);
  });
});

test("no variable of the line has the name of a secret", () => {
  expect(Object.keys(logFieldKinds).filter((name) => isSecretExpression(`log.${name}`))).toEqual([]);
});

test("the fields of expressions are those of the line, in its order", () => {
  const { level, module, msg, ...fields } = lineOf("now", recordOf({}));
  expect([level, module, msg]).toEqual(["info", accessLogModule, "request"]);
  expect(Object.keys(fields)).toEqual(Object.keys(logFieldKinds));
});
