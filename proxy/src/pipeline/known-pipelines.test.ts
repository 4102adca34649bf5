/** Pipelines are kept while nothing changes on which they depend, and compiled again otherwise. */
import { expect, test } from "vitest";
import type { Backend, Route, RouteRule } from "../ir/snapshot.ts";
import type { BackendHandle } from "../upstream/backend-handle.ts";
import { KnownPipelines } from "./known-pipelines.ts";
import type { Pipeline } from "./stages.ts";

const gateway = { namespace: "default", name: "web" };
const route = { key: "HTTPRoute/default/chat" } as Route;
const ref = { kind: "backend", weight: 1, backend: "Service/default/a:80", filters: [] } as const;

function ruleWith(parts: Partial<RouteRule>): RouteRule {
  return { key: "HTTPRoute/default/chat/0", matches: [], filters: [], backendRefs: [ref], limits: [], ...parts };
}

/** A handle of a backend of this kind; the pipelines are compared with its identity only. */
function handle(kind: "Service" | "Backend", settings: Partial<Backend> = {}): BackendHandle {
  return { backend: { kind, ...settings } } as BackendHandle;
}

/** Returns pipelines, each a new object, and whether two calls in a row have the same one. */
function start() {
  const known = new KnownPipelines();
  return (rule: RouteRule, backend: BackendHandle | undefined, owner = gateway, of = route): Pipeline => {
    const backends = new Map(backend === undefined ? [] : [[ref.backend, backend] as const]);
    return known.of(owner, of, rule, backends, () => ({}) as Pipeline);
  };
}

test("the pipeline of an unchanged rule is kept", () => {
  const pipeline = start();
  const [rule, backend] = [ruleWith({}), handle("Service")];
  expect(pipeline(rule, backend)).toBe(pipeline(rule, backend));
});

test("an equal rule, another backend, route or Gateway has another pipeline", () => {
  const pipeline = start();
  const [rule, backend] = [ruleWith({}), handle("Service")];
  const first = pipeline(rule, backend);
  expect(pipeline(ruleWith({}), backend)).not.toBe(first);
  expect(pipeline(rule, handle("Service"))).not.toBe(first);
  expect(pipeline(rule, undefined)).not.toBe(first);
  expect(pipeline(rule, backend, { namespace: "default", name: "other" })).not.toBe(first);
  expect(pipeline(rule, backend, gateway, { key: "HTTPRoute/default/other" } as Route)).not.toBe(first);
});

test("the pipeline of a Backend is kept until its settings change", () => {
  const pipeline = start();
  const rule = ruleWith({});
  const backend: { backend: BackendHandle["backend"] } = handle("Backend");
  const first = pipeline(rule, backend as BackendHandle);
  expect(pipeline(rule, backend as BackendHandle)).toBe(first);
  backend.backend = { ...backend.backend };
  expect(pipeline(rule, backend as BackendHandle)).not.toBe(first);
});

test("a rule with a Backend with providers is compiled for each snapshot, since the providers change without it", () => {
  const pipeline = start();
  const [rule, backend] = [ruleWith({}), handle("Backend", { failover: { providers: [] } })];
  expect(pipeline(rule, backend)).not.toBe(pipeline(rule, backend));
});

test("a Service may get other endpoints", () => {
  const pipeline = start();
  const rule = ruleWith({});
  const backend: { backend: BackendHandle["backend"] } = handle("Service");
  const first = pipeline(rule, backend as BackendHandle);
  backend.backend = { ...backend.backend };
  expect(pipeline(rule, backend as BackendHandle)).toBe(first);
});

test.each([
  ["two references", ruleWith({ backendRefs: [ref, ref] }), "Service"],
  ["authentication", ruleWith({ authentication: {} as NonNullable<RouteRule["authentication"]> }), "Service"],
  ["global limits", ruleWith({ globalLimits: [] }), "Service"],
  ["a mirror", ruleWith({ filters: [{ kind: "RequestMirror" } as RouteRule["filters"][number]] }), "Service"],
] as const)("a rule with %s is compiled for each snapshot", (_, rule, kind) => {
  const pipeline = start();
  const backend = handle(kind);
  expect(pipeline(rule, backend)).not.toBe(pipeline(rule, backend));
});
