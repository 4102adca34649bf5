/** A gateway in front of the endpoints of a Service that are called over HTTP/2. */
import {
  gatewayManifest,
  manifests,
  routeManifest,
  serviceManifest,
  startGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "./gateway.ts";

/** @param ports of the endpoints. */
export function startHttp2Gateway(ports: readonly number[], options: TestGatewayOptions = {}): Promise<TestGateway> {
  return startGateway(
    manifests(
      gatewayManifest(),
      serviceManifest("svc", ports, "appProtocol: kubernetes.io/h2c"),
      routeManifest("r", ["{ backendRefs: [{ name: svc, port: 80 }] }"]),
    ),
    options,
  );
}
