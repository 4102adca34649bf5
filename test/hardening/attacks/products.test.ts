/**
 * A tenant writes one long list, and many objects that refer to it. The cost of the translation must be the sum of the
 * costs of both, and not their product: in processor time, in memory and in the data that is sent to workers.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { expect, test } from "vitest";
import { SentParts } from "../../../proxy/src/app/sent-parts.ts";
import { type PackedSnapshot, packSnapshot } from "../../../proxy/src/app/snapshot-parts.ts";
import { type Translation, translate } from "../../../proxy/src/translate/translate.ts";
import {
  allSets,
  authorityRefs,
  bundleOf,
  configMap,
  expectSum,
  gateway,
  gatewayClass,
  http,
  minute,
  object,
  policy,
  processorMs,
  read,
  refsOf,
  route,
  routeTarget,
  selector,
  service,
  set,
  slice,
  times,
  tlsSecret,
  type Product,
} from "../support/tenant-objects.ts";
import { gatewayApi, proxyApi } from "../../support/api-versions.ts";

/** Bytes of results for a byte of manifests, beyond a constant amount. */
const [maxHeapFactor, maxPackedFactor, freeBytes] = [40, 20, 8 * 1024 * 1024];

const products: readonly Product[] = [
  [
    "expressions of a selector",
    5_000,
    "ListenerSets",
    500,
    (wide, many) => [
      gateway("web", [http], { allowedListeners: { namespaces: { from: "Selector", selector: selector(wide) } } }),
      ...times(many, (index) => set(`s${index}`, [{ ...http, hostname: `h${index}.test` }])),
    ],
  ],
  [
    "expressions of a selector",
    5_000,
    "routes",
    500,
    (wide, many) => [
      gateway("web", [{ ...http, allowedRoutes: { namespaces: { from: "Selector", selector: selector(wide) } } }]),
      ...times(many, (index) => route(`r${index}`, [{}])),
    ],
  ],
  [
    "grants",
    1_000,
    "references",
    256,
    (wide, many) => [
      gateway("web", [http]),
      ...times(wide, (index) =>
        object(
          gatewayApi,
          "ReferenceGrant",
          `g${index}`,
          {
            spec: {
              from: times(16, (at) => ({
                group: "gateway.networking.k8s.io",
                kind: "HTTPRoute",
                namespace: at === 15 ? "t" : `x${at}`,
              })),
              to: times(16, (at) => ({ group: "", kind: "Service", name: `nothing-${at}` })),
            },
          },
          { namespace: "u" },
        ),
      ),
      route(
        "r",
        refsOf(many, (index) => ({ name: `b${index}`, namespace: "u", port: 80 })),
      ),
    ],
  ],
  [
    "routes",
    3_000,
    "missing targets of policies",
    8_000,
    (wide, many) => [
      gateway("web", [http]),
      ...times(wide, (index) => route(`r${index}`, [{}])),
      ...times(Math.ceil(many / 16), (index) =>
        policy(
          `p${index}`,
          times(16, (at) => routeTarget(`none-${index}-${at}`)),
          [minute],
        ),
      ),
    ],
  ],
  [
    "ports of a Service",
    5_000,
    "BackendTLSPolicies",
    300,
    (wide, many) => [
      service("svc", wide),
      ...times(many, (index) =>
        object(gatewayApi, "BackendTLSPolicy", `p${index}`, {
          spec: {
            targetRefs: times(16, (at) => ({ group: "", kind: "Service", name: "svc", sectionName: `none-${at}` })),
            validation: { hostname: "a.test", wellKnownCACertificates: "System" },
          },
        }),
      ),
    ],
  ],
  [
    "ports of a Service",
    4_000,
    "references to its missing ports",
    256,
    (wide, many) => [
      gateway("web", [http]),
      service("svc", wide),
      route(
        "r",
        refsOf(many, (index) => ({ name: "svc", port: 10_000 + index })),
      ),
    ],
  ],
  [
    "equal endpoints of a Service",
    5_000,
    "references to its ports",
    256,
    (wide, many) => [
      gateway("web", [http]),
      service("svc", many),
      ...times(Math.ceil(wide / 1_000), (index) =>
        slice(
          `s${index}`,
          "svc",
          times(Math.min(wide, 1_000), () => "10.0.0.1"),
        ),
      ),
      route(
        "r",
        refsOf(many, (index) => ({ name: "svc", port: 1 + index })),
      ),
    ],
  ],
  [
    "Services",
    1_000,
    "references to other Services",
    256,
    (wide, many) => [
      gateway("web", [http]),
      ...times(wide, (index) => service(`service-with-a-long-name-${index}`, 1)),
      route(
        "r",
        refsOf(many, (index) => ({ name: `service-with-a-long-nam-${index}`, port: 80 })),
      ),
    ],
  ],
  [
    "Gateways",
    500,
    "parentRefs to namespaces that do not exist",
    100,
    (wide, many) => [
      ...times(wide, (index) => gateway(`gateway-${index}`, [http])),
      ...times(many, (index) =>
        route(`r${index}`, [{}], {
          parentRefs: times(32, (at) => ({ name: `gateway-${at}`, namespace: `n${index}-${at}` })),
        }),
      ),
    ],
  ],
  [
    "listeners with host names",
    1_000,
    "routes with none of them",
    100,
    (wide, many) => [
      gateway("web", [http], allSets),
      ...times(Math.ceil(wide / 50), (index) =>
        set(
          `s${index}`,
          times(Math.min(wide, 50), (at) => ({
            ...http,
            name: `l${at}`,
            hostname: `h${index}-${at}.${"x".repeat(60)}.test`,
          })),
        ),
      ),
      ...times(many, (index) =>
        route(`r${index}`, [{}], {
          hostnames: ["other.test"],
          parentRefs: times(Math.min(32, Math.ceil(wide / 50)), (at) => ({
            group: "gateway.networking.k8s.io",
            kind: "ListenerSet",
            name: `s${at}`,
          })),
        }),
      ),
    ],
  ],
  [
    "labels of a host name",
    116,
    "listeners",
    3_000,
    (wide, many) => [
      gateway("web", [http], allSets),
      ...times(Math.ceil(many / 60), (index) =>
        set(
          `s${index}`,
          times(Math.min(many, 60), (at) => ({
            name: `l${at}`,
            port: 8_443,
            protocol: "HTTPS",
            hostname: `h${index}-${at}.${"a.".repeat(wide)}test`,
          })),
        ),
      ),
    ],
  ],
  [
    "listeners of sets",
    1_500,
    "policies of their Gateway",
    300,
    (wide, many) => [
      gateway("web", [http], allSets),
      ...times(Math.ceil(wide / 50), (index) =>
        set(
          `s${index}`,
          times(Math.min(wide, 50), (at) => ({ ...http, name: `l${at}`, hostname: `h${index}-${at}.test` })),
        ),
      ),
      ...times(many, (index) =>
        policy(`p${index}`, [{ group: "gateway.networking.k8s.io", kind: "Gateway", name: "web" }], [minute]),
      ),
    ],
  ],
  [
    "certificates of authorities",
    120,
    "HTTPS listeners",
    600,
    (wide, many) => [
      tlsSecret,
      ...times(2, (index) => configMap(`ca-${index}`, bundleOf(wide))),
      gateway("web", [http], {
        ...allSets,
        tls: { frontend: { default: { validation: { caCertificateRefs: authorityRefs } } } },
      }),
      ...times(Math.ceil(many / 60), (index) =>
        set(
          `s${index}`,
          times(Math.min(many, 60), (at) => ({
            name: `l${at}`,
            port: 8_443,
            protocol: "HTTPS",
            hostname: `h${index}-${at}.test`,
            tls: { certificateRefs: [{ name: "cert", namespace: "t" }] },
          })),
        ),
      ),
    ],
  ],
  [
    "certificates of authorities",
    120,
    "BackendTLSPolicies",
    500,
    (wide, many) => [
      gateway("web", [http]),
      ...times(2, (index) => configMap(`ca-${index}`, bundleOf(wide))),
      ...times(many, (index) => service(`svc-${index}`, 1)),
      ...times(many, (index) =>
        object(gatewayApi, "BackendTLSPolicy", `p${index}`, {
          spec: {
            targetRefs: [{ group: "", kind: "Service", name: `svc-${index}` }],
            validation: { hostname: "a.test", caCertificateRefs: authorityRefs },
          },
        }),
      ),
      route(
        "r",
        refsOf(Math.min(many, 256), (index) => ({ name: `svc-${index}`, port: 1 })),
      ),
    ],
  ],
  [
    "certificates of authorities",
    280,
    "BackendTLSPolicies with eight references",
    2_000,
    (wide, many) => [
      gateway("web", [http]),
      ...times(8, (index) => configMap(`ca-${index}`, bundleOf(wide))),
      ...times(many, (index) => service(`svc-${index}`, 1)),
      ...times(many, (index) =>
        object(gatewayApi, "BackendTLSPolicy", `p${index}`, {
          spec: {
            targetRefs: [{ group: "", kind: "Service", name: `svc-${index}` }],
            validation: {
              hostname: "a.test",
              caCertificateRefs: times(8, (at) => ({ group: "", kind: "ConfigMap", name: `ca-${at}` })),
            },
          },
        }),
      ),
    ],
  ],
  [
    "certificates of authorities",
    200,
    "Backends",
    256,
    (wide, many) => [
      gateway("web", [http]),
      object("v1", "Secret", "ca", { data: { "ca.crt": Buffer.from(bundleOf(wide)).toString("base64") } }),
      ...times(many, (index) =>
        object(proxyApi, "Backend", `b${index}`, {
          spec: { static: { host: `10.0.0.${index % 256}`, port: 443, tls: { caRef: { name: "ca" } } } },
        }),
      ),
      route(
        "r",
        refsOf(many, (index) => ({ group: "gatewayproxy.dev", kind: "Backend", name: `b${index}` })),
      ),
    ],
  ],
  [
    "policies that close routes",
    1_000,
    "rules of the routes",
    256,
    (wide, many) => [
      gateway("web", [http]),
      ...times(Math.ceil(many / 16), (index) =>
        route(
          `r${index}`,
          times(Math.min(many, 16), (at) => ({ matches: [{ path: { type: "Exact", value: `/${at}` } }] })),
        ),
      ),
      ...times(wide, (index) =>
        policy(
          `p${index}-${"x".repeat(180)}`,
          times(16, (at) => routeTarget(`r${at}`)),
          [minute],
        ),
      ),
    ],
  ],
  [
    "characters of a key",
    900,
    "targets of policies",
    1_000,
    (wide, many) => [
      gateway("web", [http]),
      ...times(many, (index) => route(`r${index}`, [{}])),
      ...times(Math.ceil(many / 16), (index) =>
        policy(
          `p${index}`,
          times(Math.min(16, many - index * 16), (at) => routeTarget(`r${index * 16 + at}`)),
          times(8, (at) => ({ ...minute, key: `request.headers["x-${at}-${"k".repeat(wide)}"]` })),
        ),
      ),
    ],
  ],
  [
    "limits of a Gateway",
    64,
    "routes with their own limit",
    1_500,
    (wide, many) => [
      gateway("web", [http]),
      ...times(Math.ceil(wide / 16), (index) =>
        policy(
          `g${index}`,
          [{ group: "gateway.networking.k8s.io", kind: "Gateway", name: "web" }],
          times(Math.min(wide, 16), (at) => ({ ...minute, key: `request.headers["x-${index}-${at}"]` })),
        ),
      ),
      ...times(many, (index) => route(`r${index}`, [{}])),
      ...times(many, (index) => policy(`p${index}`, [routeTarget(`r${index}`)], [minute])),
    ],
  ],
  [
    "endpoints",
    3_000,
    "routes to their Service",
    300,
    (wide, many) => [
      gateway("web", [http]),
      service("svc", 1),
      ...times(Math.ceil(wide / 1_000), (index) =>
        slice(
          `s${index}`,
          "svc",
          times(Math.min(wide, 1_000), (at) => `10.${index}.${at >> 8}.${at & 255}`),
        ),
      ),
      ...times(many, (index) => route(`r${index}`, [{ backendRefs: [{ name: "svc", port: 1 }] }])),
    ],
  ],
];

test.each(products)("%s (%i) and %s (%i) take the sum of their processor times", (...product) => {
  expectSum(product, (objects) => {
    const resources = read([gatewayClass, ...objects]);
    return processorMs(() => translate(resources));
  });
});

test.each(products)("%s (%i) and %s (%i) take the sum of their memory", (_list, wide, _objects, many, make) => {
  const objects = make(wide, many);
  const inputBytes = JSON.stringify(objects).length;
  const resources = read([gatewayClass, ...objects]);
  const before = heapBytes();
  const translation = translate(resources);
  const translated = heapBytes();
  expect(translated - before).toBeLessThanOrEqual(freeBytes + maxHeapFactor * inputBytes);
  const packed = pack(translation);
  expect(heapBytes() - translated).toBeLessThanOrEqual(freeBytes + maxHeapFactor * inputBytes);
  expect(lengthOf(packed)).toBeLessThanOrEqual(freeBytes + maxPackedFactor * inputBytes);
});

/** The snapshot as the main thread keeps it. */
function pack({ binds, backends }: Translation): PackedSnapshot {
  return runToEnd(packSnapshot({ generation: 1, binds, backends }));
}

/** The characters that are sent to a worker. */
function lengthOf({ groups }: PackedSnapshot): number {
  return new SentParts().next(groups).added.reduce((sum, [, text]) => sum + text.length, 0);
}

/** The used heap after a full collection. */
function heapBytes(): number {
  setFlagsFromString("--expose-gc");
  // The function that the flag adds to new contexts.
  (runInNewContext("gc") as () => void)();
  return process.memoryUsage().heapUsed;
}
