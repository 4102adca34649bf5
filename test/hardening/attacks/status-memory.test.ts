/**
 * Routes with many parents, whose statuses have messages of some kilobytes for each. The API server returns each status
 * with 140 KB: those of 900 routes take more than the memory of a controller by the chart's defaults.
 */
import { expect, test } from "vitest";
import { gatewayApi } from "../../support/api-versions.ts";
import { object, putAll } from "../support/bystander.ts";
import { gateways, httpRoutes, smallGateway, startLimitedController } from "../support/limited-controller.ts";
import { times } from "../support/tenant-objects.ts";

const parents = 32;
/** As many routes as a namespace has room for if it is alone. */
const routesOfNamespace = 300;
const crowds = times(3, (at) => `crowd-${at}`);
/** The statuses that each namespace gets at least: the room that they have together suffices for more. */
const leastWritten = 200;

/** A route to Services of another namespace, which no grant permits. */
function routeAt(namespace: string, index: number) {
  const rule = (at: number) => ({
    matches: [{ path: { type: "PathPrefix", value: `/${at}` } }],
    backendRefs: times(10, (ref) => ({
      ...{ group: "", kind: "Service", namespace: "z".repeat(61), port: 80, weight: 1 },
      name: `s${at}-${ref}-${"y".repeat(55)}`,
    })),
  });
  const parentRefs = times(parents, (at) => ({
    group: "gateway.networking.k8s.io",
    kind: "Gateway",
    name: `g${at}`,
  }));
  const spec = { parentRefs, hostnames: [`r${index}.test`], rules: times(2, rule) };
  return object(gatewayApi, "HTTPRoute", namespace, `r${index}`, { spec });
}

test("the controller writes hundreds of long statuses within the memory of its container", {
  timeout: 420_000,
}, async () => {
  const started = await startLimitedController(async (api) => {
    for (const crowd of crowds) {
      await putAll(api, gateways, parents, (at) => smallGateway(crowd, `g${at}`));
      await putAll(api, httpRoutes, routesOfNamespace, (at) => routeAt(crowd, at));
    }
  });
  if (started === undefined) return;
  const { api, controller } = started;
  const hasStatus = (crowd: string, index: number) => api.get(httpRoutes, crowd, `r${index}`)?.["status"] !== undefined;
  const written = () =>
    crowds.map((crowd) => times(routesOfNamespace, (index) => hasStatus(crowd, index)).filter((has) => has).length);
  const areWritten = () => written().every((count) => count >= leastWritten);
  await expect
    .poll(() => controller.end() !== undefined || areWritten(), { timeout: 300_000, interval: 1_000 })
    .toBe(true);
  expect(controller.end()).toBeUndefined();
  expect(JSON.stringify(api.get(gateways, "other", "web")?.["status"])).toContain("Programmed");
});
