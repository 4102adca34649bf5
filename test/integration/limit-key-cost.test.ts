/** A limit whose key would take long: the request counts where those without a value count, and nobody waits. */
import { expect, test } from "vitest";
import { answering, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

test("a key that costs too much for a request has no value there, and the limit holds", async () => {
  const backend = await startBackend(answering(200, "here"));
  const key = 'request.path.replace("", request.path).replace("", request.path)';
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", backend.port),
      routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
      policyManifest("p", "kind: HTTPRoute, name: r", [`{ requests: 2, unit: Hours, key: '${key}' }`]),
    ),
  );
  const statuses: number[] = [];
  for (const letter of ["a", "b", "c", "d"]) {
    const path = `/${letter.repeat(700)}`;
    const { status } = await rawHttp(
      gateway.url(),
      `GET ${path} HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n`,
    );
    statuses.push(status);
  }
  expect(statuses).toEqual([200, 200, 429, 429]);
});
