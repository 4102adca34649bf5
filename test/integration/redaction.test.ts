/**
 * Secrets of routes, requests and responses appear in nothing that an operator sees: dump, trace, logs, local replies.
 */
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import { Logs } from "@gatewayproxy/runtime/log";
import { isSecretName } from "@gatewayproxy/runtime/redaction";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import fc from "fast-check";
import { expect, test } from "vitest";
import { DecisionRing } from "../../proxy/src/admin/decision-ring.ts";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { renderConfigDump } from "../../proxy/src/admin/dump/config-dump.ts";
import { parseManifests } from "../../proxy/src/api/parse-manifests.ts";
import { createAccessLog, defaultAccessLog } from "../../proxy/src/telemetry/access-log/access-log.ts";
import { RequestLog } from "../../proxy/src/telemetry/request-log.ts";
import { viewedOf } from "../../proxy/src/telemetry/testing/records.ts";
import { translate } from "../../proxy/src/translate/translate.ts";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

const marker = "MARK5f3a9c";

/** Header names that carry credentials in some API. */
const names = fc.constantFrom(
  ...["x-api-key", "x-bearer", "x-sign", "x-upstream-pass", "x-goog-iam", "x-jwt", "x-access", "x-db-pw", "x-sid"],
  ...["x-amz-security-token", "x-signature", "x-session", "cookie", "authorization", "x-csrf", "x-auth-user"],
);
/** Query parameters that carry credentials; no `x-` header has these names. */
const parameters = fc.constantFrom(
  "token",
  "jwt",
  "access",
  "pw",
  "sig",
  "code",
  "api_key",
  "id%5Ftoken",
  "X-Amz-Signature",
);
/** Headers whose values are URLs. */
const urlHeaders = fc.constantFrom("location", "referer", "content-location", "link", "x-original-url");

const scenario = fc.record({ name: names, other: names, parameter: parameters, urlHeader: urlHeaders });

test("a value under the name of a secret is never shown", async () => {
  let reply: Record<string, string> = {};
  const backend = await startBackend((_request, response) => response.writeHead(200, reply).end("ok"));
  const base = manifests(gatewayManifest(), backendManifest("b", backend.port));
  const detail = detailedLog();
  const gateway = await startGateway(base, detail);
  await fc.assert(
    fc.asyncProperty(scenario, async ({ name, other, parameter, urlHeader }) => {
      expect(isSecretName(name)).toBe(true);
      const query = `${parameter}=${marker}`;
      const rule = `
      matches: [{ headers: [{ name: ${name}, value: "${marker}" }], queryParams: [{ name: "${decodeURIComponent(parameter)}", value: "${marker}" }] }]
      filters:
        - { type: RequestHeaderModifier, requestHeaderModifier: { set: [{ name: ${other}, value: "${marker}" }, { name: x-hook, value: "https://u:${marker}@h/?${query}" }] } }
        - { type: ResponseHeaderModifier, responseHeaderModifier: { add: [{ name: x-${other}, value: "${marker}" }] } }
        - { type: URLRewrite, urlRewrite: { path: { type: ReplaceFullPath, replaceFullPath: "/hook;${query}" } } }
      backendRefs:
        - kind: Backend
          group: gatewayproxy.dev
          name: b
          filters: [{ type: RequestHeaderModifier, requestHeaderModifier: { add: [{ name: ${other}, value: "${marker}" }] } }]`;
      const policy = policyManifest("limit", "kind: HTTPRoute, name: r", [
        `{ requests: 1000, unit: Minutes, key: 'request.headers["${name}"]' }`,
      ]);
      const text = manifests(base, routeManifest("r", [rule.trim()]), policy);
      await gateway.apply(text);
      reply = { [urlHeader]: `https://a.example/x?${query}#${query}`, [name]: marker };

      const shown: unknown[] = [dumpOf(text)];
      const events: TraceEvent[] = [];
      gateway.dataPlane.tracer.add({
        id: 1,
        claim: new Int32Array(new SharedArrayBuffer(4)),
        matches: undefined,
        sink: (event) => event !== undefined && events.push(event),
      });
      const ended = gateway.nextRecord();
      const headers = { [name]: marker, [urlHeader]: `https://a.example/x?${query}` };
      const response = await fetch(`${gateway.url()}/path;${query}?${query}`, { headers });
      expect(await response.text()).toBe("ok");
      const record = await ended;
      expect(events.length).toBeGreaterThan(4);
      const ring = new DecisionRing(1);
      const [counter] = record.decisions;
      expect(counter?.limit.key).toContain(name);
      ring.add({ record, denial: denialOf(counter?.limit), atMs: 0, monotonicMs: 0 });
      const lines = detail.takeLines();
      for (const head of ["request head received", "request head sent", "response head sent", "counter read"]) {
        expect(lines).toContain(head);
      }
      shown.push(events, logged(record), ring.find({ id: undefined }), lines);
      expect(JSON.stringify(shown)).not.toContain(marker);
    }),
    { numRuns: 40 },
  );
});

/** The log of single requests at trace. */
function detailedLog() {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const logs = new Logs({ filter: { level: "trace", modules: new Map() }, clock: new FakeClock(), destination });
  const requestLog = new RequestLog({
    access: logs.logger("proxy::access"),
    routing: logs.logger("proxy::routing"),
    ratelimit: logs.logger("proxy::ratelimit"),
    upstream: logs.logger("proxy::upstream"),
    server: logs.logger("proxy::server"),
  });
  return {
    requestLog,
    upstreamLog: logs.logger("proxy::upstream"),
    /** The lines that were written since the last call. */
    takeLines: (): string => lines.splice(0).join(""),
  };
}

/** Text that has the form of credentials, wherever a client sends it. */
const credentials = fc
  .constantFrom(...["sk-proj-", "ghp_", "hf_", "glpat-", "xoxb-", "AKIA", "AIza", "eyJhbGciOiJIUzI1NiJ9."])
  .map((prefix) => `${prefix}${marker}${marker}`);

const positions = fc.constantFrom(
  "user-agent",
  "x-request-id",
  "path",
  "path before a query",
  "query",
  "segment parameter",
  "host",
  "x-forwarded-for",
  "method",
);

test("a credential in the shown parts of a request is never shown", async () => {
  const backend = await startBackend();
  const route = routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`]);
  const detail = detailedLog();
  const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("b", backend.port), route), detail);
  await fc.assert(
    fc.asyncProperty(credentials, positions, fc.constantFrom("200", "400"), async (credential, where, outcome) => {
      const events: TraceEvent[] = [];
      gateway.dataPlane.tracer.add({
        id: 1,
        claim: new Int32Array(new SharedArrayBuffer(4)),
        matches: undefined,
        sink: (event) => event !== undefined && events.push(event),
      });
      const paths: Readonly<Record<string, string>> = {
        path: `/a/${credential}/b`,
        "path before a query": `/${credential}?n=1`,
        query: `/a?${credential}&n=1`,
        "segment parameter": `/a;x=${credential}`,
      };
      const path = paths[where] ?? "/a";
      const host = where === "host" ? `${credential}.example` : "a.example";
      const fields = ["user-agent", "x-request-id", "x-forwarded-for"].includes(where)
        ? `${where}: ${credential}\r\n`
        : "";
      const method = where === "method" ? credential.replaceAll(/[.]/g, "") : "GET";
      const ended = gateway.nextRecord();
      // An invalid length gets the request rejected before any rule matches.
      const length = outcome === "400" ? "Content-Length: x\r\n" : "";
      const head = `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${fields}${length}\r\n`;
      const { head: received } = await rawHttp(gateway.url(), head);
      const record = await ended;
      const ring = new DecisionRing(1);
      const limit = { policy: "p", target: "t", entry: 0, counts: "requests", unit: "Minutes", amount: 1 } as Limit;
      ring.add({ record, denial: denialOf(limit, "k"), atMs: 0, monotonicMs: 0 });
      const lines = detail.takeLines();
      expect(lines).toContain("request ended");
      const shown = [lines, logged(record), events, ring.find({ id: undefined }), gateway.dataPlane.tasks(), received];
      expect(JSON.stringify(shown)).not.toContain(marker);
    }),
    { numRuns: 80 },
  );
});

test.each(["User-Agent", "X-Request-Id", "X-Forwarded-For"])(
  "%s adds no line to the log and no terminal escape sequence",
  async (name) => {
    const gateway = await startGateway(gatewayManifest());
    const ended = gateway.nextRecord();
    const evil = "a\t\u0085\u009b31m\u00ad\u00e9\u009d";
    await rawHttp(gateway.url(), `GET / HTTP/1.1\r\nHost: a\r\n${name}: ${evil}\r\nConnection: close\r\n\r\n`);
    const record = await ended;
    expect(record.status).toBe(404);
    const [line = ""] = logged(record);
    // C0 and C1 controls (ECMA-48) and DEL.
    expect(line.slice(0, -1)).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
    if (name === "User-Agent") expect(JSON.parse(line)).toMatchObject({ userAgent: evil });
  },
);

function dumpOf(text: string): unknown {
  const { resources } = parseManifests([{ path: "test.yaml", text }]);
  const { binds, backends, statuses } = translate(resources);
  return runToEnd(
    renderConfigDump({
      process: { version: "0", startedMs: 0, mode: "file", source: "test", settings: {} },
      configuration: {
        snapshot: { generation: 1, binds, backends },
        conflicts: { found: [], leftOut: 0, unexaminedHostnames: 0 },
        ...{ resources, statuses, problems: [], failures: [], servingSinceMs: 0, lastRejected: undefined },
      },
      ...{ workers: [], workerDeaths: [], endpoints: [], keySets: [], providers: new Map() },
    }),
  );
}

type Ended = Parameters<ReturnType<typeof createAccessLog>>[0];
type Limit = Ended["decisions"][number]["limit"];

function logged(record: Ended): readonly string[] {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const logger = { isLevelEnabled: () => true };
  const options = { settings: defaultAccessLog, logger, destination, clock: new FakeClock(), random: Math.random };
  createAccessLog(options)(record, viewedOf(record));
  expect(lines).toHaveLength(1);
  return lines;
}

/** A denial by the limit, for the one whose key is the marker. */
function denialOf(limit: Limit | undefined, key = marker): Parameters<DecisionRing["add"]>[0]["denial"] {
  if (limit === undefined) throw new Error("no limit decided");
  const state = { limit: 1, remaining: 0, resetSeconds: 1 };
  const window = { windowStartMs: 0, windowEndMs: 60_000 };
  const none = { notApplied: [], named: undefined };
  return { kind: "local", limit, key, used: 1, ...window, state, retryAfterSeconds: 1, ...none };
}
