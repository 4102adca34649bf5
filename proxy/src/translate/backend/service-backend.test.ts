import { describe, expect, test } from "vitest";
import { parseResource } from "../../api/parse-resource.ts";
import { resourceSet } from "../../api/resource.ts";
import { indexResources } from "../index/resource-index.ts";
import { newServiceBudgets, resolveService, wantedOf } from "./service-backend.ts";

interface Conditions {
  readonly ready?: boolean;
  readonly serving?: boolean;
  readonly terminating?: boolean;
}

/** Returns the addresses of a Service that get requests, of endpoints with these conditions: 10.0.0.1, 10.0.0.2, … */
function used(...endpoints: readonly Conditions[]): readonly string[] {
  const slice = {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: "b-1", labels: { "kubernetes.io/service-name": "b" } },
    addressType: "IPv4",
    ports: [{ name: "", port: 8080, protocol: "TCP" }],
    endpoints: endpoints.map((conditions, index) => ({
      addresses: [`10.0.${index >> 8}.${(index + 1) & 255}`],
      conditions,
    })),
  };
  const service = { apiVersion: "v1", kind: "Service", metadata: { name: "b" }, spec: { ports: [{ port: 80 }] } };
  const resources = [service, slice].map((object) => {
    const parsed = parseResource(object);
    if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
    return parsed.resource;
  });
  const index = indexResources(resourceSet(resources));
  const resource = index.services.get("default/b");
  if (resource === undefined) throw new Error("there is no Service");
  const slices = index.slices.get("default/b") ?? [];
  const budgets = newServiceBudgets();
  budgets.endpointBudget.want("default", endpoints.length);
  budgets.scanBudget.want("default", wantedOf(slices).entries);
  const resolution = resolveService(resource, { port: 80, transport: "TCP" }, slices, {
    tlsOf: () => ({ kind: "none" }),
    addressDenial: () => undefined,
    ...budgets,
  });
  if (resolution.kind !== "resolved") throw new Error(JSON.stringify(resolution));
  return resolution.value.endpoints.map(({ host }) => host);
}

const ready = { ready: true, serving: true, terminating: false };
const ending = { ready: false, serving: true, terminating: true };
const ended = { ready: false, serving: false, terminating: true };

describe("of the endpoints of a Service", () => {
  test("those that are ready are used, and none that is terminating", () => {
    expect(used(ready, ending, ready)).toEqual(["10.0.0.1", "10.0.0.3"]);
  });

  test("those that serve while they terminate are used if none is ready", () => {
    expect(used(ended, ending)).toEqual(["10.0.0.2"]);
  });

  test("at most a thousand are used", () => {
    expect(used(...Array.from({ length: 1_500 }, () => ready))).toHaveLength(1_000);
  });

  test("those that do not serve are not used", () => {
    expect(used(ended, { ready: false })).toEqual([]);
  });
});
