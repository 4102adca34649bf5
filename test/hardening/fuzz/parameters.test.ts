/** A ConfigMap of parameters may contain any text: reading it and merging it neither throws nor blocks. */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { expect } from "vitest";
import { parseResource } from "../../../proxy/src/api/parse-resource.ts";
import { type Resource, resourceSet } from "../../../proxy/src/api/resource.ts";
import { planFor } from "../../../proxy/src/controller/plan.ts";
import { proxyDefaults } from "../../../proxy/src/controller/testing/proxy-defaults.ts";
import { noCredentials } from "../../../proxy/src/translate/tls/credentials.ts";
import { fuzz } from "../support/fuzz.ts";
import { type Manifest, parameters } from "../support/manifest-values.ts";
import { relativeCost } from "../support/relative-cost.ts";

const apiVersion = "gateway.networking.k8s.io/v1";
const owners: readonly Manifest[] = [
  {
    apiVersion,
    kind: "GatewayClass",
    metadata: { name: "c" },
    spec: { controllerName: "gatewayproxy.dev/controller" },
  },
  {
    apiVersion,
    kind: "Gateway",
    metadata: { name: "g", namespace: "default" },
    spec: {
      gatewayClassName: "c",
      listeners: [{ name: "http", protocol: "HTTP", port: 80 }],
      infrastructure: { parametersRef: { group: "", kind: "ConfigMap", name: "a" } },
    },
  },
];

/** In reference loops: 100 ms if such a loop takes 0.3 ms. */
const blocked = 330;

function read(manifest: Manifest): Resource {
  const parsed = parseResource(manifest);
  if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

fuzz("parameters", {
  arbitrary: parameters("a"),
  check(configMap) {
    const plan = () => {
      const resources = resourceSet([...owners, configMap].map(read));
      return runToEnd(
        planFor({ resources, rejected: [], unreadable: new Set(), crowded: new Set() }, proxyDefaults, noCredentials),
      );
    };
    // An object that makes it throw is left out, and reported.
    expect(plan().culprits).toEqual([]);
    expect(relativeCost(plan, blocked)).toBeLessThan(blocked);
  },
  quickRuns: 100,
});
