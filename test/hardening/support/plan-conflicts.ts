/**
 * A worker that translates the objects of one tenant, written to make the search for route conflicts large, and two
 * routes of another tenant. A worker has its own heap, so that a test can bound it.
 */
import { parentPort, workerData } from "node:worker_threads";
import { parseResource } from "../../../proxy/src/api/parse-resource.ts";
import { type Resource, resourceSet } from "../../../proxy/src/api/resource.ts";
import { translateInSteps } from "../../../proxy/src/translate/translate.ts";
import { StepTimes } from "./longest-turn.ts";
import { gatewayApi } from "../../support/api-versions.ts";

/**
 * The tenant's matches, at a Gateway with 64 listeners. `distinct`: no two are equal. `same`: all are equal. `apart`:
 * all are equal, and each listener has its own route. `halves`: all are equal, and each route is at 32 listeners.
 * `over`: all have the same number of headers, with different names.
 */
export type World = "distinct" | "same" | "apart" | "halves" | "over";

export interface Planned {
  /** Conditions of the other tenant's second route, whose match equals that of the first. */
  readonly otherTenant: readonly string[];
  readonly unexamined: number;
  /** In milliseconds, as in `StepTimes`. */
  readonly longestStepMs: number;
}

const listenerNames = Array.from({ length: 64 }, (_, at) => `l${at}`);
const headerNames = Array.from({ length: 10 }, (_, at) => `x-${at}`);

function resource(kind: string, metadata: object, spec: object): Resource {
  const parsed = parseResource({ apiVersion: gatewayApi, kind, metadata, spec });
  if (parsed.kind !== "resource") throw new Error(`${kind} ${JSON.stringify(metadata)} is not read`);
  return parsed.resource;
}

function matchAt(world: World, route: number, match: number): object {
  const value = world === "distinct" ? `/p${route}/${match}` : "/a";
  if (world !== "over") return { path: { value } };
  const headers = headerNames
    .filter((_, at) => (match * 7 + route * 13 + at * 5) % 10 < 6)
    .map((name, at) => ({ name, value: String((route + match * at) % 3) }));
  return { path: { value }, headers };
}

/** The sections of a route of the tenant: an absent section is every listener. */
function sectionsOf(world: World, route: number): readonly (string | undefined)[] {
  if (world !== "halves") return [undefined];
  return listenerNames.filter((_, at) => (at * route + at * at * 3 + route * 7) % 61 < 30).slice(0, 32);
}

function routesOf(world: World, count: number): readonly Resource[] {
  const own = Array.from({ length: count }, (_, route) =>
    resource(
      "HTTPRoute",
      { name: `r${route}`, namespace: "tenant" },
      {
        parentRefs: sectionsOf(world, route).map((sectionName) => ({ name: "g", sectionName })),
        rules: Array.from({ length: 16 }, (__, rule) => ({
          matches: Array.from({ length: 8 }, (___, match) => matchAt(world, route, rule * 8 + match)),
        })),
      },
    ),
  );
  const alone = listenerNames.map((sectionName) =>
    resource(
      "HTTPRoute",
      { name: sectionName, namespace: "tenant" },
      { parentRefs: [{ name: "g", sectionName }], rules: [{}] },
    ),
  );
  return world === "apart" ? [...own, ...alone] : own;
}

async function plan({ world, count }: { readonly world: World; readonly count: number }): Promise<Planned> {
  const other = { parentRefs: [{ name: "g", namespace: "tenant" }], rules: [{ matches: [{ path: { value: "/b" } }] }] };
  const resources = resourceSet([
    resource("GatewayClass", { name: "c" }, { controllerName: "gatewayproxy.dev/controller" }),
    resource(
      "Gateway",
      { name: "g", namespace: "tenant" },
      {
        gatewayClassName: "c",
        listeners: listenerNames.map((name, at) => ({
          name,
          protocol: "HTTP",
          port: 8_000 + at,
          allowedRoutes: { namespaces: { from: "All" } },
        })),
      },
    ),
    ...routesOf(world, count),
    resource("HTTPRoute", { name: "first", namespace: "zz" }, other),
    resource("HTTPRoute", { name: "second", namespace: "zz" }, other),
  ]);
  const steps = translateInSteps(resources, { onlyStatuses: true });
  const times = new StepTimes(10);
  for (;;) {
    const endStep = times.begin();
    const step = steps.next();
    endStep();
    if (step.done !== true) continue;
    const { statuses, conflicts } = step.value;
    const second = statuses.httpRoutes.find(({ name }) => name === "second");
    const conditions = second?.parents.flatMap((parent) => parent.conditions) ?? [];
    const otherTenant = conditions.map(({ type, status }) => `${type}=${status}`);
    return { otherTenant, unexamined: conflicts.unexaminedHostnames, longestStepMs: await times.longestMs() };
  }
}

parentPort?.postMessage(await plan(workerData as Parameters<typeof plan>[0]));
