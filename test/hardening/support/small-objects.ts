/** Small objects of all kinds of which the memory is bounded. */
import type { KubeObject } from "../../../proxy/src/kube/object.ts";
import { gatewayApi, proxyApi } from "../../support/api-versions.ts";
import { object } from "./bystander.ts";
import { gateways, httpRoutes, smallGateway } from "./limited-controller.ts";

type Make = (index: number) => KubeObject;

const backends = `/apis/${proxyApi}/backends`;
const policies = `/apis/${proxyApi}/proxypolicies`;

/** Returns what makes the objects of a kind in a namespace. */
export function smallIn(namespace: string) {
  return (apiVersion: string, kind: string, fields: (index: number) => object): Make =>
    (index) =>
      object(apiVersion, kind, namespace, `r${index}`, fields(index));
}

const ofGateway = { group: "gateway.networking.k8s.io", kind: "Gateway" };

/** Returns the collections of all bounded kinds but ListenerSets, with what makes their small objects. */
export function smallObjectsOf(namespace: string): readonly (readonly [string, Make])[] {
  const small = smallIn(namespace);
  return [
    [gateways, small(gatewayApi, "Gateway", () => ({ spec: smallGateway(namespace, "")["spec"] }))],
    [
      backends,
      small(proxyApi, "Backend", (index) => ({
        spec: { ai: { provider: { openai: {} }, auth: { secretRef: { name: `key-${index}` } } } },
      })),
    ],
    [
      policies,
      small(proxyApi, "ProxyPolicy", (index) => ({
        spec: {
          targetRefs: [{ ...ofGateway, name: `web-${index}` }],
          traffic: { rateLimit: { local: [{ requests: 1, unit: "Minutes" }] } },
        },
      })),
    ],
    [
      `/apis/${gatewayApi}/backendtlspolicies`,
      small(gatewayApi, "BackendTLSPolicy", (index) => ({
        spec: {
          targetRefs: [{ group: "", kind: "Service", name: `r${index}` }],
          validation: { wellKnownCACertificates: "System", hostname: `h${index}.test` },
        },
      })),
    ],
    [
      `/apis/${gatewayApi}/referencegrants`,
      small(gatewayApi, "ReferenceGrant", (index) => ({
        spec: { from: [{ ...ofGateway, namespace: `n${index}` }], to: [{ group: "", kind: "Secret" }] },
      })),
    ],
    ["/api/v1/services", small("v1", "Service", () => ({ spec: { ports: [{ port: 80, protocol: "TCP" }] } }))],
    [
      "/apis/discovery.k8s.io/v1/endpointslices",
      (index: number) => ({
        ...object(
          "discovery.k8s.io/v1",
          "EndpointSlice",
          namespace,
          `r${index}`,
          {},
          {
            labels: { "kubernetes.io/service-name": `r${index}` },
          },
        ),
        ...{ addressType: "IPv4", endpoints: [{ addresses: ["192.0.2.1"] }], ports: [{ name: "", port: 80 }] },
      }),
    ],
    [
      httpRoutes,
      small(gatewayApi, "HTTPRoute", (index) => ({
        spec: {
          parentRefs: [{ name: "web", namespace: "other" }],
          rules: [{ matches: [{ path: { value: `/${index}` } }], backendRefs: [{ name: `r${index}`, port: 80 }] }],
        },
      })),
    ],
  ];
}
