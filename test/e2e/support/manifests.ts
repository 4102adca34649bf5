/** The manifests that tests consist of. */
import { testPort } from "./client.ts";
import { release, systemNamespace } from "./cluster.ts";
import { gatewayApi, proxyApi } from "../../support/api-versions.ts";

/** A Gateway on the tests' port, with its ConfigMap of parameters. */
export function gateway(
  name: string,
  { replicas = 2, parameters = {} }: { replicas?: number; parameters?: Readonly<Record<string, string>> } = {},
): readonly object[] {
  return [
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name },
      data: {
        deployment: JSON.stringify({ spec: { replicas } }),
        service: JSON.stringify({ spec: { type: "NodePort", ports: [{ port: 8080, nodePort: testPort.node }] } }),
        ...parameters,
      },
    },
    {
      apiVersion: gatewayApi,
      kind: "Gateway",
      metadata: { name },
      spec: {
        gatewayClassName: "gateway-proxy",
        infrastructure: { parametersRef: { group: "", kind: "ConfigMap", name } },
        listeners: [{ name: "http", protocol: "HTTP", port: 8080 }],
      },
    },
  ];
}

/** A route from a path to the mock LLM of the examples, whose Backend is in the same namespace. */
export function route(name: string, parent: string, path = "/"): object {
  return {
    apiVersion: gatewayApi,
    kind: "HTTPRoute",
    metadata: { name },
    spec: {
      parentRefs: [{ name: parent }],
      rules: [
        {
          matches: [{ path: { type: "PathPrefix", value: path } }],
          backendRefs: [{ group: "gatewayproxy.dev", kind: "Backend", name: "llm" }],
        },
      ],
    },
  };
}

/** The mock LLM of examples/kind, as a provider. */
export const llm: object = {
  apiVersion: proxyApi,
  kind: "Backend",
  metadata: { name: "llm" },
  spec: { ai: { provider: { openai: {} }, host: "mock-llm.default.svc.cluster.local", port: 8089 } },
};

/** The rate limit service of the chart, as a policy refers to it. */
export const service = { name: `${release}-ratelimit-service`, namespace: systemNamespace, port: 8081 } as const;

/** Permits the policies of a namespace to refer to the service; it belongs into the namespace of the release. */
export function grantService(namespace: string): object {
  return {
    apiVersion: "gateway.networking.k8s.io/v1beta1",
    kind: "ReferenceGrant",
    metadata: { name: namespace },
    spec: {
      from: [{ group: "gatewayproxy.dev", kind: "ProxyPolicy", namespace }],
      to: [{ group: "", kind: "Service", name: service.name }],
    },
  };
}

/** A ProxyPolicy on a route or Gateway. */
export function policy(
  name: string,
  target: { kind: "HTTPRoute" | "Gateway"; name: string },
  rateLimit: object,
): object {
  return {
    apiVersion: proxyApi,
    kind: "ProxyPolicy",
    metadata: { name },
    spec: { targetRefs: [{ group: "gateway.networking.k8s.io", ...target }], traffic: { rateLimit } },
  };
}
