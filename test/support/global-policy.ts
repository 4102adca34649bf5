/** Gateways of tests with a global limit on one route `chat`. */
import { type TestBackend } from "./backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "./gateway.ts";

/** A ProxyPolicy on the route `chat`; `global` is flow YAML of its fields besides the domain. */
export function globalPolicy(global: string, local?: string): string {
  return `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: chat, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat }]
  traffic:
    rateLimit:
      ${local === undefined ? "" : `local: ${local}`}
      global: { domain: chat, ${global} }
`;
}

/** One descriptor per client address. */
export const byAddress = "descriptors: [{ entries: [{ name: remote_address, expression: source.address }] }]";

/** A token budget per value of the header x-user. */
export const tokensByUser = `descriptors: [{ unit: Tokens, entries: [{ name: user, expression: 'request.headers["x-user"]' }] }]`;

/** Everything on one route `chat` to `backend`, under `policies`. */
export function serveUnder(backend: TestBackend, ...policies: readonly string[]): Promise<TestGateway> {
  return startGateway(manifestsUnder(backend, ...policies));
}

/** The manifests of `serveUnder`, to apply again after an edit. */
export function manifestsUnder(backend: TestBackend, ...policies: readonly string[]): string {
  return manifests(
    gatewayManifest(),
    backendManifest("llm", backend.port),
    routeManifest("chat", [`backendRefs: [${backendRef("llm")}]`]),
    ...policies,
  );
}

export interface TestResponse {
  readonly status: number;
  readonly body: string;
  /** Limit, remaining and reset; null where the header is missing. */
  readonly limit: readonly (string | null)[];
  readonly headers: Headers;
}

export async function send(gateway: TestGateway, init: RequestInit = {}, path = "/"): Promise<TestResponse> {
  const response = await fetch(`${gateway.url()}${path}`, init);
  return {
    status: response.status,
    body: await response.text(),
    limit: ["limit", "remaining", "reset"].map((name) => response.headers.get(`x-ratelimit-${name}`)),
    headers: response.headers,
  };
}
