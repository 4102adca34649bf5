import { describe, expect, test } from "vitest";
import { parseManifests } from "../api/parse-manifests.ts";
import type { GatewayStatus, ListenerSetStatus } from "../api/status.ts";
import type { KubeObject } from "../kube/object.ts";
import { persistenceCondition, readinessOf, setWithReadiness, withReadiness } from "./gateway-readiness.ts";
import { indexResources, type ResourceIndex } from "../translate/index/resource-index.ts";
import { ownedObject } from "./provision/owned-object.ts";

const service = (fields: object): KubeObject => ({ metadata: { name: "web", namespace: "infra" }, ...fields });

/** Returns the EndpointSlices of each Service. */
function slices(yaml: string): ResourceIndex["slices"] {
  const { resources, problems } = parseManifests([{ path: "slices.yaml", text: yaml }]);
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  return indexResources(resources).slices;
}

function slice(name: string, endpoints: string, { of = "web", namespace = "infra" } = {}): string {
  return `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ${name}, namespace: ${namespace}, labels: {kubernetes.io/service-name: ${of}}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [${endpoints}]
---`;
}

const ready = (address: string) => `{addresses: [${address}], conditions: {ready: true}}`;
const unready = (address: string) => `{addresses: [${address}], conditions: {ready: false}}`;

const noErrors = { ofGateway: undefined, ofController: undefined };

describe("the readiness of a Gateway", () => {
  test("counts the ready proxies of its Service, each once, over all of its slices", () => {
    const all = slices(
      [
        slice("a", [ready("10.0.0.1"), unready("10.0.0.2")].join(", ")),
        // While Kubernetes moves an endpoint between slices, both contain it for a moment.
        slice("b", [ready("10.0.0.1"), ready("10.0.0.3")].join(", ")),
        slice("c", ready("10.0.0.4"), { of: "other" }),
        slice("d", ready("10.0.0.5"), { namespace: "elsewhere" }),
      ].join("\n"),
    );
    expect(readinessOf(service({}), all, noErrors).ready).toBe(2);
  });

  test("has no address and no ready proxy where there is no Service", () => {
    expect(
      readinessOf(undefined, slices(slice("a", ready("10.0.0.1"))), { ...noErrors, ofGateway: "no quota" }),
    ).toEqual({
      ...{ addresses: [], ready: 0, error: "no quota" },
    });
  });

  test.each([
    ["its Service's own", { spec: { type: "ClusterIP", clusterIP: "10.96.0.7" } }, ["IPAddress 10.96.0.7"]],
    [
      "those that a NodePort Service is known by",
      { spec: { type: "NodePort", clusterIP: "10.96.0.7" } },
      ["IPAddress 10.96.0.7"],
    ],
    [
      "external ones before its own",
      { spec: { type: "ClusterIP", clusterIP: "10.96.0.7", externalIPs: ["192.0.2.1"] } },
      ["IPAddress 192.0.2.1"],
    ],
    [
      "those that its load balancer was given, and names",
      {
        spec: { type: "LoadBalancer", clusterIP: "10.96.0.7" },
        status: { loadBalancer: { ingress: [{ ip: "192.0.2.1" }, { hostname: "lb.example.com" }, {}] } },
      },
      ["IPAddress 192.0.2.1", "Hostname lb.example.com"],
    ],
    ["none while its load balancer was given none", { spec: { type: "LoadBalancer", clusterIP: "10.96.0.7" } }, []],
    [
      "those of its pods where its Service has none",
      { spec: { type: "ClusterIP", clusterIP: "None" } },
      ["IPAddress 10.0.0.1", "IPAddress 10.0.0.2"],
    ],
    [
      "those of both families",
      { spec: { type: "ClusterIP", clusterIP: "10.96.0.7", clusterIPs: ["10.96.0.7", "fd00::7"] } },
      ["IPAddress 10.96.0.7", "IPAddress fd00::7"],
    ],
    ["none before its Service was given one", { spec: { type: "ClusterIP" } }, []],
  ])("has as addresses %s", (_, fields, expected) => {
    const pods = slices(slice("a", [ready("10.0.0.2"), ready("10.0.0.1"), unready("10.0.0.3")].join(", ")));
    const { addresses } = readinessOf(service(fields), pods, noErrors);
    expect(addresses.map(({ type, value }) => `${type} ${value}`)).toEqual(expected);
  });

  test.each([
    ["a load balancer", { type: "LoadBalancer" }],
    ["external addresses", { externalIPs: Array.from({ length: 20 }, (_, index) => `192.0.2.${index}`) }],
  ])("has no more addresses of %s than the API accepts", (_, spec) => {
    const ingress = Array.from({ length: 20 }, (_, index) => ({ ip: `192.0.2.${index}` }));
    const { addresses } = readinessOf(service({ spec, status: { loadBalancer: { ingress } } }), new Map(), noErrors);
    expect(addresses).toHaveLength(16);
  });

  test("has no more addresses of pods than the API accepts", () => {
    const pods = slices(slice("a", Array.from({ length: 20 }, (_, index) => ready(`10.0.0.${index + 1}`)).join(", ")));
    const { addresses, ready: count } = readinessOf(service({ spec: { clusterIP: "None" } }), pods, noErrors);
    expect(addresses).toHaveLength(16);
    expect(count).toBe(20);
  });
});

function gatewayWith(addresses: string) {
  const text = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: infra}
spec: {gatewayClassName: gateway-proxy, addresses: [${addresses}], listeners: [{name: http, port: 80, protocol: HTTP}]}
`;
  const [gateway] = parseManifests([{ path: "a.yaml", text }]).resources.Gateway;
  if (gateway === undefined) throw new Error("the Gateway was rejected");
  return gateway;
}

describe("a Gateway's status", () => {
  const status: GatewayStatus = {
    ...{ namespace: "infra", name: "web" },
    conditions: [
      { type: "Accepted", status: "True", reason: "Accepted", message: "" },
      { type: "Programmed", status: "True", reason: "Programmed", message: "", observedGeneration: 3 },
    ],
    listeners: [
      {
        name: "http",
        attachedRoutes: 1,
        supportedKinds: [],
        conditions: [
          { type: "Accepted", status: "True", reason: "Accepted", message: "" },
          { type: "Programmed", status: "True", reason: "Programmed", message: "", observedGeneration: 3 },
        ],
      },
    ],
  };
  const address = { type: "IPAddress", value: "10.96.0.7" } as const;
  const good = { addresses: [address], ready: 1, error: undefined };

  test("is that of the translation where proxies are ready at an address", () => {
    expect(withReadiness(status, gatewayWith(""), good)).toEqual({ ...status, addresses: [address] });
  });

  test.each([
    ["an object of it cannot be made", { ...good, error: "quota exceeded" }, "NoResources", "quota exceeded"],
    ["no proxy is ready", { ...good, ready: 0 }, "NoResources", "no proxy of the Gateway is ready yet"],
    [
      "it has no address",
      { ...good, addresses: [] },
      "AddressNotAssigned",
      "the Service of the Gateway has no address yet",
    ],
  ])("is not programmed where %s, nor are its listeners", (_, readiness, reason, message) => {
    const result = withReadiness(status, gatewayWith(""), readiness);
    expect(result.conditions).toEqual([
      status.conditions[0],
      { type: "Programmed", status: "False", reason, message, observedGeneration: 3 },
    ]);
    expect(result.listeners[0]?.conditions).toMatchObject([
      { type: "Accepted", status: "True" },
      { type: "Programmed", status: "False", reason: "Pending", observedGeneration: 3 },
    ]);
    expect(result.addresses).toBe(readiness.addresses);
  });

  test("is not programmed where its Service was not assigned the address that it requests", () => {
    const gateway = gatewayWith("{value: 192.0.2.9}, {value: 10.96.0.7}");
    expect(withReadiness(status, gateway, good).conditions[1]).toMatchObject({
      ...{ type: "Programmed", status: "False", reason: "AddressNotUsable" },
      message: "the Service of the Gateway was not assigned the requested addresses 192.0.2.9",
    });
    expect(withReadiness(status, gatewayWith("{value: 10.96.0.7}"), good).conditions).toEqual(status.conditions);
  });

  test("keeps the reason of the translation for not programming it", () => {
    const invalid = { type: "Programmed", status: "False", reason: "Invalid", message: "no listener" } as const;
    const rejected = { ...status, conditions: [invalid], listeners: [] };
    expect(withReadiness(rejected, gatewayWith(""), { ...good, ready: 0 }).conditions).toEqual([invalid]);
  });
});

describe("a ListenerSet's status", () => {
  const status: ListenerSetStatus = {
    ...{ namespace: "team", name: "more" },
    conditions: [{ type: "Programmed", status: "True", reason: "Programmed", message: "" }],
    listeners: [],
  };

  test("is that of the translation where its Gateway is programmed", () => {
    expect(setWithReadiness(status, true)).toBe(status);
  });

  test("is not programmed where its Gateway is not", () => {
    expect(setWithReadiness(status, false).conditions).toMatchObject([
      { type: "Programmed", status: "False", reason: "ParentNotProgrammed" },
    ]);
  });
});

describe("the condition of a Gateway whose proxies have volumes", () => {
  const { Gateway } = parseManifests([
    {
      path: "gateway.yaml",
      text: `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: infra, generation: 4}
spec: {gatewayClassName: ours, listeners: [{name: http, port: 80, protocol: HTTP}]}
`,
    },
  ]).resources;
  const setOf = (storage: string) =>
    ownedObject({
      ...{ kind: "StatefulSet", namespace: "infra", name: "web", metadata: {} },
      fields: { spec: { volumeClaimTemplates: [{ spec: { resources: { requests: { storage } } } }] } },
    });
  const serving = (availableReplicas: number) => ({ ...setOf("1Gi").body, status: { availableReplicas } });
  const deployment = { kind: "Deployment" };

  test.each<[string, KubeObject | undefined, KubeObject | undefined, string, object]>([
    ["does not exist", undefined, undefined, "1Gi", { status: "False", message: "0 proxies with volumes are ready" }],
    ["serves nothing", serving(0), undefined, "1Gi", { status: "False", message: "0 proxies with volumes are ready" }],
    [
      "does not serve alone yet",
      serving(1),
      deployment,
      "1Gi",
      {
        status: "False",
        reason: "Pending",
        message: "1 proxy with a volume is ready; proxies without volumes serve until all with volumes do",
      },
    ],
    [
      "serves",
      serving(2),
      undefined,
      "1024Mi",
      {
        status: "True",
        reason: "Persistent",
        message: "each proxy keeps the counters of long windows on a volume",
        observedGeneration: 4,
      },
    ],
    [
      "has volumes of another size",
      serving(2),
      undefined,
      "2Gi",
      {
        status: "True",
        reason: "VolumesUnchanged",
        message: expect.stringContaining('stays "1Gi" and not "2Gi"') as string,
      },
    ],
  ])("reports a StatefulSet that %s", (_, current, replaced, storage, expected) => {
    const [gateway] = Gateway;
    if (gateway === undefined) throw new Error("the manifest is invalid");
    const condition = persistenceCondition(gateway, { desired: setOf(storage), current, replaced });
    expect(condition).toMatchObject({ type: "PersistentCounters", ...expected });
  });
});
