/**
 * The backend of a GRPCRoute. gRPC needs HTTP/2, so the backend is called by HTTP/2 for any `appProtocol`: in clear
 * text with prior knowledge, or negotiated by ALPN with TLS (Gateway API `GRPCBackendRef`). A Service that HTTPRoutes
 * call by HTTP/1.1 is in the snapshot once for each protocol.
 */
import type { Backend } from "../../ir/snapshot.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";
import type { BackendResolution } from "./service-backend.ts";

/** The values of `appProtocol` of servers that cannot take gRPC (KEP-3726). */
const otherProtocols: readonly string[] = ["kubernetes.io/ws", "kubernetes.io/wss"];

/**
 * Returns the resolution of a backendRef of a GRPCRoute.
 *
 * @param resolution as for an HTTPRoute.
 * @param appProtocol of the port of the Service; undefined if it has none, and for a Backend.
 */
export function resolutionForGrpc(resolution: BackendResolution, appProtocol: string | undefined): BackendResolution {
  if (resolution.kind === "unusable" || resolution.kind === "unresolved") return resolution;
  const { value } = resolution;
  if (value.ai !== undefined || value.failover !== undefined) {
    const message = `Backend ${value.namespace}/${value.name} is an LLM provider, which takes no gRPC calls`;
    return { kind: "unresolved", reason: "InvalidKind", message };
  }
  if (appProtocol !== undefined && otherProtocols.includes(appProtocol)) {
    const message = `${value.kind} ${value.namespace}/${value.name} has appProtocol ${appProtocol}, which takes no gRPC calls`;
    return { kind: "unresolved", reason: "UnsupportedProtocol", message };
  }
  return resolvedOverHttp2(resolution);
}

/** A resolution to a backend. */
type Usable = Extract<BackendResolution, { readonly value: Backend }>;

/** Returns the same object for the same resolution, so that rules that refer to it stay as they are. */
const resolvedOverHttp2 = memoised(
  (resolution: Usable): Usable => ({
    ...resolution,
    value: overHttp2(resolution.value),
  }),
);

/** Returns the same object for the same backend, since many routes may refer to it. */
const overHttp2 = memoised(
  (backend: Backend): Backend =>
    backend.protocol === "h2" ? backend : { ...backend, key: `${backend.key} over HTTP/2`, protocol: "h2" },
);
