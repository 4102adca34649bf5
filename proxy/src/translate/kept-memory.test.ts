/** The memory of values that are kept from one translation to the next: replaced resources have no part in it. */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { expect, test } from "vitest";
import { usedMemory } from "../../../test/support/memory.ts";
import { parseResource } from "../api/parse-resource.ts";
import { type Resource, resourceSet } from "../api/resource.ts";
import { assertSnapshot } from "../ir/assert-snapshot.ts";
import { type Translation, translate } from "./translate.ts";

const gateway = "gateway.networking.k8s.io/v1";
const count = 3_000;
/** Routes that are added between two translations. */
const added = 30;

function parsed(document: object): Resource {
  const result = parseResource(document);
  if (result.kind !== "resource") throw new Error(JSON.stringify(result));
  return result.resource;
}

const common = [
  {
    kind: "GatewayClass",
    metadata: { name: "gateway-proxy" },
    spec: { controllerName: "gatewayproxy.dev/controller" },
  },
  {
    kind: "Gateway",
    metadata: { namespace: "a", name: "web" },
    spec: {
      gatewayClassName: "gateway-proxy",
      listeners: [{ name: "http", port: 8080, protocol: "HTTP", allowedRoutes: { namespaces: { from: "All" } } }],
    },
  },
].map((each) => ({ apiVersion: gateway, ...each }));

/** A route with a Service and an endpoint. */
function objectsOf(at: number): readonly object[] {
  const metadata = { namespace: `n${at % 50}`, name: `r${at}` };
  return [
    { apiVersion: "v1", kind: "Service", metadata, spec: { ports: [{ port: 80 }] } },
    {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { ...metadata, labels: { "kubernetes.io/service-name": `r${at}` } },
      ...{ addressType: "IPv4", ports: [{ port: 8080 }], endpoints: [{ addresses: ["192.0.2.1"] }] },
    },
    {
      apiVersion: gateway,
      kind: "HTTPRoute",
      metadata,
      spec: {
        parentRefs: [{ name: "web", namespace: "a" }],
        hostnames: [`r${at}.test`],
        rules: [{ backendRefs: [{ name: `r${at}`, port: 80 }] }],
      },
    },
  ];
}

/** Returns the memory of all routes when the last ones are translated, after translations of the first ones. */
async function memoryAfter(lengths: readonly number[]): Promise<number> {
  const before = await usedMemory();
  const shared = common.map(parsed);
  const own = Array.from({ length: count }, (_, at) => objectsOf(at).map(parsed));
  let last: Translation | undefined;
  for (const length of lengths) {
    last = translate(resourceSet([...shared, ...own.slice(0, length).flat()]));
    runToEnd(assertSnapshot(last));
  }
  const memory = (await usedMemory()) - before;
  // They are in use until here.
  expect([last, own.length]).toEqual([expect.anything(), count]);
  return memory;
}

test("routes that are added one after the other take little more memory than all at once", async () => {
  // The first one also compiles what it uses.
  await memoryAfter([count]);
  const atOnce = await memoryAfter([count]);
  const inTurns = await memoryAfter(Array.from({ length: count / added }, (_, at) => (at + 1) * added));
  expect(inTurns).toBeLessThan(1.25 * atOnce);
});
