/** Objects of one tenant, in the sizes that an attack needs. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { parseManifests } from "../../../proxy/src/api/parse-manifests.ts";
import { parseResource } from "../../../proxy/src/api/parse-resource.ts";
import { type ResourceSet, resourceSet } from "../../../proxy/src/api/resource.ts";
import { gatewayApi, proxyApi } from "../../support/api-versions.ts";

export const times = <Value>(count: number, make: (index: number) => Value): readonly Value[] =>
  Array.from({ length: count }, (_, index) => make(index));

interface Extra {
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

export function object(apiVersion: string, kind: string, name: string, rest: object, extra: Extra = {}): object {
  const metadata = { name, namespace: "t", uid: name, creationTimestamp: "2026-01-01T00:00:00Z", ...extra };
  return { apiVersion, kind, metadata, ...rest };
}

type Spec = Readonly<Record<string, unknown>>;

export const gatewayClass = object(gatewayApi, "GatewayClass", "gateway-proxy", {
  spec: { controllerName: "gatewayproxy.dev/controller" },
});
export const http = { name: "http", port: 8_000, protocol: "HTTP" };
export const gateway = (name: string, listeners: readonly object[], spec: Spec = {}): object =>
  object(gatewayApi, "Gateway", name, { spec: { gatewayClassName: "gateway-proxy", listeners, ...spec } });
export const route = (name: string, rules: readonly object[], spec: Spec = {}): object =>
  object(gatewayApi, "HTTPRoute", name, { spec: { parentRefs: [{ name: "web" }], rules, ...spec } });
export const set = (name: string, listeners: readonly object[]): object =>
  object(gatewayApi, "ListenerSet", name, { spec: { parentRef: { name: "web" }, listeners } });
export const service = (name: string, ports: number): object =>
  object("v1", "Service", name, {
    spec: { ports: times(ports, (index) => ({ name: `p${index}`, port: 1 + index, protocol: "TCP" })) },
  });
export const policy = (
  name: string,
  targets: readonly object[],
  entries: readonly object[],
  fields: object = {},
): object =>
  object(proxyApi, "ProxyPolicy", name, {
    spec: { targetRefs: targets, traffic: { rateLimit: { local: entries, ...fields } } },
  });
export const slice = (name: string, of: string, addresses: readonly string[]): object =>
  object(
    "discovery.k8s.io/v1",
    "EndpointSlice",
    name,
    {
      addressType: "IPv4",
      ports: [{ name: "p0", port: 8_080, protocol: "TCP" }],
      endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
    },
    { labels: { "kubernetes.io/service-name": of } },
  );

export const allSets = { allowedListeners: { namespaces: { from: "All" } } };
export const selector = (count: number): object => ({
  matchExpressions: times(count, (index) => ({ key: `k${index}`, operator: "DoesNotExist" })),
});
export const minute = { requests: 1, unit: "Minutes" };
export const routeTarget = (name: string): object => ({ group: "gateway.networking.k8s.io", kind: "HTTPRoute", name });
export const refsOf = (count: number, make: (index: number) => object): readonly object[] =>
  times(Math.ceil(count / 16), (rule) => ({
    backendRefs: times(Math.min(16, count - rule * 16), (at) => make(rule * 16 + at)),
  }));
export const configMap = (name: string, text: string): object =>
  object("v1", "ConfigMap", name, { data: { "ca.crt": text } });

const scenario = parseManifests([
  {
    path: "",
    text: readFileSync(
      join(import.meta.dirname, "../../../proxy/src/translate/testdata/listener-client-validation.in.yaml"),
      "utf8",
    ),
  },
]).resources;
const [pair] = scenario.Secret;
const [authority] = scenario.ConfigMap;
if (pair === undefined || authority === undefined) throw new Error("the scenario has a certificate and an authority");
export const bundleOf = (count: number): string => `${authority.data["ca.crt"]?.trim()}\n`.repeat(count);
export const tlsSecret = object("v1", "Secret", "cert", { type: pair.type, data: pair.data });
export const authorityRefs = [
  { group: "", kind: "ConfigMap", name: "ca-0" },
  { group: "", kind: "ConfigMap", name: "ca-1" },
];

/** Parses objects. Throws for one that is not valid. */
export function read(objects: readonly object[]): ResourceSet {
  return resourceSet(
    objects.map((each) => {
      const parsed = parseResource(each);
      if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed).slice(0, 500));
      return parsed.resource;
    }),
  );
}

/** A long list and many objects that refer to it: names and sizes of both, and manifests for given sizes. */
export type Product = readonly [string, number, string, number, (wide: number, many: number) => readonly object[]];

/**
 * The maximum by which a product may exceed the sum of its parts. A product of hundreds by hundreds exceeds it a
 * hundredfold.
 */
const maxFactor = 5;
/** Shorter computations are not compared. */
const freeMs = 150;

/**
 * Checks that the processor time for a product is the sum of that of its parts. A garbage collection may occur in one
 * run.
 */
export function expectSum([, wide, , many, make]: Product, ms: (objects: readonly object[]) => number): void {
  const limit = freeMs + maxFactor * (ms(make(wide, 1)) + ms(make(1, many)));
  let taken = ms(make(wide, many));
  for (let run = 0; run < 2 && taken > limit; run++) taken = Math.min(taken, ms(make(wide, many)));
  expect(taken).toBeLessThanOrEqual(limit);
}

/** The milliseconds of processor time of a computation. */
export function processorMs(compute: () => unknown): number {
  const started = process.threadCpuUsage();
  compute();
  const { user, system } = process.threadCpuUsage(started);
  return (user + system) / 1_000;
}
