/** A gateway in front of one endpoint that is called over HTTP/2. */
import {
  gatewayManifest,
  manifests,
  routeManifest,
  serviceManifest,
  startGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "./gateway.ts";

/** @param port of the endpoint. */
export function startHttp2Gateway(port: number, options: TestGatewayOptions = {}): Promise<TestGateway> {
  return startGateway(
    manifests(
      gatewayManifest(),
      serviceManifest("svc", [port], "appProtocol: kubernetes.io/h2c"),
      routeManifest("r", ["{ backendRefs: [{ name: svc, port: 80 }] }"]),
    ),
    options,
  );
}
