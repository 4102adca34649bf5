/** docs/logs.md against the log: fields, reasons and modules, in both directions. */
import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { renderMarkdownTable } from "@gatewayproxy/runtime/markdown-table";
import { withSection } from "@gatewayproxy/runtime/testing/doc-section";
import { expect, test } from "vitest";
import { proxyLogModules } from "../../proxy/src/app/log-modules.ts";
import { controllerLogModules } from "../../proxy/src/controller/log-modules.ts";
import { serviceLogModules } from "../../ratelimit-service/src/settings/log-modules.ts";
import { attributeNames } from "../../proxy/src/telemetry/access-log/attributes.ts";
import { accessLogModule, lineOf, type LogLine, streamLineOf } from "../../proxy/src/telemetry/access-log/log-line.ts";
import type { RequestRecord } from "../../proxy/src/telemetry/request-record.ts";
import type { StreamRecord } from "../../proxy/src/telemetry/stream-record.ts";
import { limitOf, recordOf } from "../../proxy/src/telemetry/testing/records.ts";

const page = readFileSync(new URL("../../docs/logs.md", import.meta.url), "utf8");
const reasonsFile = new URL("../../proxy/src/telemetry/request-record.ts", import.meta.url);

const streamReasonsFile = new URL("../../proxy/src/telemetry/stream-record.ts", import.meta.url);

/** Names in code spans of the first column of the table below a heading. */
function namesBelow(heading: string): readonly string[] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split("\n## ")[0] ?? "";
  const firstCells = [...section.matchAll(/^\| ([^|]*) \|/gm)].map(([, cell = ""]) => cell);
  return firstCells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name));
}

/** A connection with a server name. */
const streamOf: StreamRecord = {
  ...{ protocol: "TLS", startMs: 0, durationMs: 1, sourceAddress: "192.0.2.7", serverName: "a.example" },
  ...{ listener: "l", route: "r", rule: "r/0", gateway: "g", backend: "b", endpoint: "e", attempts: 2, connectMs: 1 },
  ...{ receivedBytes: 1, sentBytes: 1, reason: "ClientClosed", decisions: [] },
};

/** Fields of the lines with all optional parts. */
function fieldsLogged(): readonly string[] {
  const everything: Partial<RequestRecord> = {
    identity: "jwt alice",
    ...{ traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7" },
    ...{ clientModel: "alias", requestModel: "m" },
    ...{ provider: "Backend/default/b", failovers: [{ provider: "Backend/default/a", cause: "status 429" }] },
    ...{ userAgent: "curl/8", attempts: 2, grpcStatus: 14, reason: "UpstreamReset", usageUnread: "absent" },
    usage: {
      ...{ input: 1, output: 2, total: 3, cachedInputTokens: 1, cacheCreationTokens: 1, reasoningTokens: 1 },
      ...{ cost: 1, currency: "USD", model: "m", estimated: true },
    },
    decisions: [
      { limit: limitOf({}), outcome: "denied" },
      { limit: limitOf({ mode: "Shadow" }), outcome: "shadowDenied" },
    ],
    globalDecisions: [
      { limit: { policy: "default/p", target: "HTTPRoute/default/r" }, outcome: "allowed", by: "service" },
    ] as unknown as RequestRecord["globalDecisions"], // the log reads no other part of the limit
  };
  const line = lineOf("", recordOf(everything));
  // The fields of requests and of relayed connections, in the one order of both.
  const stream = streamLineOf("", streamOf);
  return Object.keys(line).filter((name) => [line, stream].some((each) => each[name as keyof LogLine] !== undefined));
}

test("the table of the access log has every field in the order of the line, and no other", () => {
  const common = ["level", "module", "msg"];
  expect(namesBelow("The access log")).toEqual(fieldsLogged().filter((name) => !common.includes(name)));
});

test("the table of reasons has every reason, and no other", () => {
  const declared = readFileSync(reasonsFile, "utf8").split("export interface")[0] ?? "";
  const reasons = [...declared.matchAll(/^ {2}\| "(\w+)"/gm)].map(([, reason = ""]) => reason);
  expect(reasons.length).toBeGreaterThan(10);
  expect(namesBelow("Reasons")).toEqual(reasons);
});

const modules = { ...proxyLogModules, ...controllerLogModules, ...serviceLogModules };

test("the table of ends of connections has every reason, and no other", () => {
  const declared = readFileSync(streamReasonsFile, "utf8").split("/** The ends in which")[0] ?? "";
  const reasons = [...declared.matchAll(/^ {2}\| "(\w+)"/gm)].map(([, reason = ""]) => reason);
  expect(reasons.length).toBeGreaterThan(10);
  expect(
    namesBelow("Connections and sessions")
      .filter((name) => name !== "reason")
      .toSorted(),
  ).toEqual(reasons.toSorted());
});

test("the table of modules is the one of the programs (`npx vitest -u` writes it)", async () => {
  const rows = Object.entries(modules).map(([name, about]) => [`\`${name}\``, about]);
  const table = renderMarkdownTable([["module", "logs"], ...rows]);
  const file = fileURLToPath(new URL("../../docs/logs.md", import.meta.url));
  await expect(withSection(page, "modules", table)).toMatchFileSnapshot(file);
});

test("a logger is made for every module of the table, and for no other", () => {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const sources = globSync(["proxy/src/**/*.ts", "ratelimit-service/src/**/*.ts"], { cwd: root }).filter(
    (file) => !file.endsWith(".test.ts") && !file.includes("/testing/"),
  );
  const named = sources.flatMap((file) =>
    [...readFileSync(`${root}/${file}`, "utf8").matchAll(/\blogger\("([^"]+)"\)/g)].map(([, name = ""]) => name),
  );
  expect(new Set([...named, accessLogModule])).toEqual(new Set(Object.keys(modules)));
});

test("docs/opentelemetry.md has the attribute of each field (`npx vitest -u` writes it)", async () => {
  const file = fileURLToPath(new URL("../../docs/opentelemetry.md", import.meta.url));
  const rows = Object.entries(attributeNames).flatMap(([name, attribute]) =>
    attribute === undefined ? [] : [[`\`${name}\``, `\`${attribute}\``]],
  );
  const table = renderMarkdownTable([["field", "attribute"], ...rows]);
  await expect(withSection(readFileSync(file, "utf8"), "attributes", table)).toMatchFileSnapshot(file);
});
