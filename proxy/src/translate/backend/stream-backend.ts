/**
 * The backend of a TLSRoute, a TCPRoute or a UDPRoute: addresses to which bytes are relayed. A Service that HTTPRoutes
 * call too is in the snapshot once for each, since health checks by requests do not concern streams.
 */
import type { Backend } from "../../ir/snapshot.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";
import type { BackendResolution, Transport } from "./service-backend.ts";

/** Returns the resolution of a backendRef of such a route. @param resolution as for an HTTPRoute. */
export function resolutionForStreams(resolution: BackendResolution, transport: Transport): BackendResolution {
  if (resolution.kind === "unusable" || resolution.kind === "unresolved") return resolution;
  const { value } = resolution;
  const name = `${value.kind} ${value.namespace}/${value.name}`;
  if (value.ai !== undefined || value.failover !== undefined) {
    const message = `${name} is an LLM provider, which takes requests and no connections of clients`;
    return { kind: "unresolved", reason: "InvalidKind", message };
  }
  if (transport === "UDP" && value.tls !== undefined) {
    const message = `${name} has TLS, with which it takes no datagrams`;
    return { kind: "unresolved", reason: "UnsupportedProtocol", message };
  }
  return { ...resolution, value: overTransport[transport](value) };
}

/** Returns the same object for the same backend, since many routes may refer to it. */
const overTransport = {
  TCP: memoised((backend: Backend): Backend => ({ ...backend, key: `${backend.key} over TCP`, protocol: "tcp" })),
  UDP: memoised((backend: Backend): Backend => ({ ...backend, key: `${backend.key} over UDP`, protocol: "udp" })),
};
