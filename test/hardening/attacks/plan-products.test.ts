/** Like products.test.ts, for the plans that the controller computes beside the translation. */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { test } from "vitest";
import { clusterStatuses, planFor } from "../../../proxy/src/controller/plan.ts";
import { noProvisionErrors } from "../../../proxy/src/controller/provision/provisioner.ts";
import type { Gateway } from "../../../proxy/src/api/gateway.ts";
import { proxyDefaults } from "../../../proxy/src/controller/testing/proxy-defaults.ts";
import { noCredentials } from "../../../proxy/src/translate/tls/credentials.ts";
import {
  allSets,
  expectSum,
  gateway,
  gatewayClass,
  http,
  object,
  processorMs,
  read,
  route,
  routeTarget,
  service,
  set,
  slice,
  times,
  type Product,
} from "../support/tenant-objects.ts";
import { gatewayApi, proxyApi } from "../../support/api-versions.ts";

const plans: readonly Product[] = [
  [
    "keys of a Service's selector",
    20_000,
    "Gateways",
    200,
    (wide, many) => [
      object("v1", "Service", "svc", {
        spec: {
          ports: [{ port: 80, protocol: "TCP" }],
          selector: Object.fromEntries(times(wide, (index) => [`k${index}`, "v"])),
        },
      }),
      ...times(many, (index) => gateway(`gateway-${index}`, [http])),
    ],
  ],
  [
    "ListenerSets of a Gateway",
    3_000,
    "routes",
    100,
    (wide, many) => [
      gateway("web", [http], allSets),
      ...times(wide, (index) => set(`s${index}`, [{ ...http, hostname: `h${index}.test` }])),
      ...times(many, (index) => route(`r${index}`, [{}])),
    ],
  ],
  [
    "BackendTLSPolicies of a Service",
    500,
    "Gateways that refer to it",
    320,
    (wide, many) => [
      service("svc", 1),
      ...times(many, (index) => gateway(`gateway-${index}`, [http])),
      ...times(Math.ceil(many / 32), (index) =>
        route(`r${index}`, [{ backendRefs: [{ name: "svc", port: 1 }] }], {
          parentRefs: times(Math.min(32, many), (at) => ({ name: `gateway-${index * 32 + at}` })),
        }),
      ),
      ...times(wide, (index) =>
        object(gatewayApi, "BackendTLSPolicy", `p${index}`, {
          spec: {
            targetRefs: [{ group: "", kind: "Service", name: "svc" }],
            validation: {
              hostname: "a.test",
              caCertificateRefs: [{ group: "", kind: "ConfigMap", name: `ca-${index}` }],
            },
          },
        }),
      ),
    ],
  ],
];

const statuses: readonly Product[] = [
  [
    "EndpointSlices",
    30_000,
    "Gateways",
    500,
    (wide, many) => [
      ...times(many, (index) => gateway(`gateway-${index}`, [http])),
      ...times(wide, (index) => slice(`s${index}`, `svc-${index}`, ["10.0.0.1"])),
    ],
  ],
  [
    "Secrets",
    10_000,
    "policies that select Secrets",
    1_000,
    (wide, many) => [
      gateway("web", [http]),
      ...times(wide, (index) =>
        object("v1", "Secret", `s${index}`, { data: { key: "a2V5" } }, { labels: { tier: "a" } }),
      ),
      ...times(many, (index) =>
        object(proxyApi, "ProxyPolicy", `p${index}`, {
          spec: {
            targetRefs: [routeTarget(`r${index}`)],
            traffic: {
              authentication: { apiKeys: { secretSelector: { matchLabels: { tier: "a", no: `n${index % 9}` } } } },
            },
          },
        }),
      ),
    ],
  ],
];

test.each(statuses)("the statuses for %s (%i) and %s (%i) take the sum of their times", (...product) => {
  expectSum(product, (objects) => {
    const resources = read([gatewayClass, ...objects]);
    const input = { resources, rejected: [], unreadable: new Set<string>(), crowded: new Set<string>() };
    const plan = runToEnd(planFor(input, proxyDefaults, noCredentials));
    const serviceOf = (of: Gateway) => ({
      metadata: { namespace: of.metadata.namespace, name: `${of.metadata.name}-gateway-proxy` },
    });
    return processorMs(() => runToEnd(clusterStatuses(plan, { resources, serviceOf, errors: noProvisionErrors })));
  });
});

test.each(plans)("a plan for %s (%i) and %s (%i) takes the sum of their times", (...product) => {
  expectSum(product, (objects) => {
    const resources = read([gatewayClass, ...objects]);
    return processorMs(() =>
      runToEnd(
        planFor({ resources, rejected: [], unreadable: new Set(), crowded: new Set() }, proxyDefaults, noCredentials),
      ),
    );
  });
});
