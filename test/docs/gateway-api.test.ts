/** Every field that docs/gateway-api.md lists as served names tests that exist. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import * as z from "zod";
import { backendTlsPolicySchema } from "../../proxy/src/api/backend-tls-policy.ts";
import { gatewaySchema } from "../../proxy/src/api/gateway.ts";
import { grpcRouteSchema } from "../../proxy/src/api/grpc-route.ts";
import { httpRouteSchema } from "../../proxy/src/api/http-route.ts";
import { listenerSetSchema } from "../../proxy/src/api/listener-set.ts";
import { tcpRouteSchema, tlsRouteSchema, udpRouteSchema } from "../../proxy/src/api/stream-route.ts";
import { repository } from "./markdown.ts";

const page = readFileSync(join(repository, "docs/gateway-api.md"), "utf8");
/** Field, `yes` or `no`, evidence. */
const rows = [...page.matchAll(/^\| (.+?) +\| (yes|no) +\| (.+?) +\|$/gm)].map(
  ([, field = "", served, evidence = ""]) => ({
    field,
    served,
    evidence,
  }),
);

/** `file › title`, the file below test/integration or, with a folder, below the repository. */
function namedTests(evidence: string): readonly { readonly file: string; readonly title: string }[] {
  return [...evidence.matchAll(/`([\w./-]+\.test\.ts)` › ([^|)]+)/g)].map(([, file = "", title = ""]) => ({
    file: file.includes("/") ? file : `test/integration/${file}`,
    title: title.trim(),
  }));
}

function namedGoldens(evidence: string): readonly string[] {
  return (/golden ([\w, -]+)/.exec(evidence)?.[1] ?? "").split(", ").filter((name) => name !== "");
}

/** Kubernetes' own label selector is no part of the API; of an unsupported field the parts need no row. */
const leftOut = ["matchLabels", "matchExpressions"];
const closed = [...leftOut, "sessionPersistence"];

/** The names of all fields below `spec` that the parser knows. It accepts the fields of the standard channel's CRDs. */
function fieldNames(schema: z.ZodType): readonly string[] {
  const names = new Set<string>();
  const visit = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries<unknown>({ ...value })) {
      const isFieldMap = key === "properties" && typeof inner === "object" && inner !== null;
      if (isFieldMap) for (const name of Object.keys(inner)) names.add(name);
      if (!closed.includes(key)) visit(inner);
    }
  };
  const { properties } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any", reused: "inline" });
  visit(properties?.["spec"]);
  return [...names].filter((name) => !leftOut.includes(name));
}

test.each([
  ["Gateway", gatewaySchema, "gatewayClassName"],
  ["ListenerSet", listenerSetSchema, "listeners"],
  ["HTTPRoute", httpRouteSchema, "replacePrefixMatch"],
  ["GRPCRoute", grpcRouteSchema, "service"],
  ["TLSRoute", tlsRouteSchema, "hostnames"],
  ["TCPRoute", tcpRouteSchema, "weight"],
  ["UDPRoute", udpRouteSchema, "weight"],
  ["BackendTLSPolicy", backendTlsPolicySchema, "subjectAltNames"],
])("the page has every field of %s", (_, schema, known) => {
  const names = fieldNames(schema);
  expect(names).toContain(known);
  // A filter's field has the name of its type, except for the first letter.
  expect(names.filter((name) => !new RegExp(`\\b${name}\\b`, "i").test(page))).toEqual([]);
});

test("the page has a row per field", () => {
  expect(rows.length).toBeGreaterThan(30);
});

test.each(rows)("$field: $served", ({ served, evidence }) => {
  const tests = namedTests(evidence);
  const goldens = namedGoldens(evidence);
  if (served === "yes") expect(tests.length + goldens.length).toBeGreaterThan(0);
  for (const { file, title } of tests) expect(readFileSync(join(repository, file), "utf8")).toContain(title);
  for (const golden of goldens) {
    expect(existsSync(join(repository, "proxy/src/translate/testdata", `${golden}.in.yaml`)), golden).toBe(true);
  }
});
