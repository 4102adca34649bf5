/**
 * What one namespace may add to the listeners of a Gateway, or of all Gateways, has bounds, and leaves others theirs.
 */
import { expect, test } from "vitest";
import { parseResource } from "../../api/parse-resource.ts";
import { type Resource, resourceSet } from "../../api/resource.ts";
import type { Condition } from "../../api/status.ts";
import { clusterEnvironment } from "../environment.ts";
import { translate } from "../translate.ts";
import { maxServedListeners, maxServedPorts, maxValidatedListeners } from "./listener-budget.ts";

const gatewayApi = "gateway.networking.k8s.io/v1";
const environment = clusterEnvironment();

function read(kind: string, namespace: string, name: string, spec: object): Resource {
  const parsed = parseResource({ apiVersion: gatewayApi, kind, metadata: { name, namespace }, spec });
  if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

const times = <Value>(count: number, make: (index: number) => Value): readonly Value[] =>
  Array.from({ length: count }, (_, index) => make(index));

const gatewayClass = read("GatewayClass", "", "gateway-proxy", { controllerName: "gatewayproxy.dev/controller" });
const http = { name: "http", port: 80, protocol: "HTTP" };
const gateway = (namespace: string, name: string, listeners: readonly object[]): Resource => {
  const allowedListeners = { namespaces: { from: "All" } };
  return read("Gateway", namespace, name, { gatewayClassName: "gateway-proxy", allowedListeners, listeners });
};
const web = gateway("owner", "web", [http]);
const set = (namespace: string, name: string, listeners: readonly object[], parent = "web"): Resource =>
  read("ListenerSet", namespace, name, { parentRef: { namespace: "owner", name: parent }, listeners });
/** 64 listeners with hostnames of their own. */
const withHosts = (name: string) => times(64, (at) => ({ ...http, name: `l${at}`, hostname: `h${at}.${name}.test` }));

function reasons(statuses: readonly { readonly namespace: string; readonly conditions: readonly Condition[] }[]) {
  const counts: Record<string, number> = {};
  for (const { namespace, conditions } of statuses) {
    const key = `${namespace} ${conditions.find(({ type }) => type === "Accepted")?.reason ?? ""}`;
    counts[key] = (counts[key] ?? 0) + 1;
  }
  return counts;
}

test("the listeners of ListenerSets that a Gateway serves are shared", () => {
  const crowd = times(200, (index) => set("crowd", `s${index}`, withHosts(`crowd${index}`)));
  const resources = resourceSet([gatewayClass, web, ...crowd, set("other", "s", withHosts("other"))]);
  const { listenerSets, gateways } = translate(resources, { environment, onlyStatuses: true }).statuses;
  const served = (maxServedListeners - 64) / 64;
  expect(reasons(listenerSets)).toEqual({
    "crowd Accepted": served,
    "crowd TooManyListeners": 200 - served,
    "other Accepted": 1,
  });
  const beyond = listenerSets.find(({ conditions }) => conditions[0]?.reason === "TooManyListeners");
  expect(beyond?.listeners).toEqual([]);
  expect(beyond?.conditions).toMatchObject([
    {
      status: "False",
      message: `the set has 64 listeners, and namespace crowd has a share of ${maxServedListeners - 64} of the ${maxServedListeners} listeners of ListenerSets that the proxies of the Gateway serve, the oldest sets first`,
    },
    { type: "Programmed", status: "False", reason: "TooManyListeners" },
  ]);
  expect(gateways[0]?.attachedListenerSets).toBe(served + 1);
});

test("their ports are shared, each counted once for a namespace", () => {
  const ports = (from: number) => times(64, (at) => ({ name: `l${at}`, port: from + at, protocol: "TCP" }));
  const crowd = times(10, (index) => set("crowd", `s${index}`, ports(1_000 + 64 * index)));
  const same = set("crowd", "same", [{ name: "udp", port: 1_000, protocol: "UDP" }]);
  const resources = resourceSet([gatewayClass, web, same, ...crowd, set("other", "s", ports(20_000))]);
  const { listenerSets } = translate(resources, { environment, onlyStatuses: true }).statuses;
  // The set `same` comes before the others by its name.
  const served = Math.floor((maxServedPorts - 64 - 1) / 64);
  expect(reasons(listenerSets)).toEqual({
    "crowd Accepted": served + 1,
    "crowd TooManyListeners": 10 - served,
    "other Accepted": 1,
  });
});

test("the listeners of ListenerSets of all Gateways that are validated are shared", () => {
  const names = ["a", "b", "c"];
  const crowd = names.flatMap((name) =>
    times(128, (index) => set("crowd", `${name}${index}`, withHosts(`${name}${index}`), name)),
  );
  const gateways = names.map((name) => gateway("owner", name, [http]));
  const resources = resourceSet([gatewayClass, ...gateways, web, ...crowd, set("other", "s", withHosts("other"))]);
  const { listenerSets } = translate(resources, { environment, onlyStatuses: true }).statuses;
  const validated = (maxValidatedListeners - 64) / 64;
  expect(reasons(listenerSets)).toEqual({
    "crowd Accepted": validated,
    "crowd TooManyListenersInAll": 3 * 128 - validated,
    "other Accepted": 1,
  });
});

test("the listeners of all Gateways that are validated are shared, and a Gateway beyond has none", () => {
  const ports = times(64, (at) => ({ name: `l${at}`, port: 1_000 + at, protocol: "HTTP" }));
  const crowd = times(300, (index) => gateway("crowd", `g${index}`, ports));
  const resources = resourceSet([gatewayClass, ...crowd, gateway("other", "g", [http])]);
  const { gateways } = translate(resources, { environment, onlyStatuses: true }).statuses;
  const validated = Math.floor((maxValidatedListeners - 1) / 64);
  expect(reasons(gateways)).toEqual({
    "crowd Accepted": validated,
    "crowd TooManyListenersInAll": 300 - validated,
    "other Accepted": 1,
  });
  const beyond = gateways.find(({ conditions }) => conditions[0]?.reason === "TooManyListenersInAll");
  expect(beyond).toMatchObject({
    listeners: [],
    conditions: [{ status: "False" }, { type: "Programmed", status: "False" }],
  });
});
