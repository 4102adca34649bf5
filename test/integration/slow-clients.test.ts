/** Timeouts that a client causes say nothing about an endpoint. */
import type { RequestListener } from "node:http";
import { expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { gatewayManifest, manifests, routeManifest, serviceManifest, startGateway } from "../support/gateway.ts";
import { openFrom } from "../support/proxied-client.ts";

const upload = "POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";

const get = "GET /download HTTP/1.1\r\nHost: a\r\n\r\n";

async function start(respond: RequestListener) {
  const backends = [await startBackend(respond), await startBackend(respond)];
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      serviceManifest(
        "svc",
        backends.map(({ port }) => port),
      ),
      routeManifest("r", ["{ timeouts: { backendRequest: 1s }, backendRefs: [{ name: svc, port: 80 }] }"]),
    ),
    { expectsProxyHeader: true },
  );
  const requests = (): number => backends.reduce((sum, backend) => sum + backend.requests.length, 0);
  const timesEjected = () => gateway.dataPlane.endpoints().map((endpoint) => endpoint.timesEjected);
  return { gateway, requests, timesEjected };
}

/** More than an endpoint needs to be ejected. */
const count = 12;

test("uploads that their client does not finish in time eject no endpoint", async () => {
  const { gateway, requests, timesEjected } = await start(() => undefined);
  for (let sent = 1; sent <= count; sent++) {
    const client = openFrom(gateway, "10.0.0.1", upload);
    await expect.poll(requests).toBe(sent);
    gateway.clock.advance(1_000);
    await expect.poll(() => client.text()).toContain("HTTP/1.1 504");
  }
  expect(timesEjected()).toEqual([0, 0]);
});

test("an endpoint that does not respond in time is ejected", async () => {
  const { gateway, requests, timesEjected } = await start(() => undefined);
  for (let sent = 1; sent <= count; sent++) {
    const client = openFrom(gateway, "10.0.0.1", get);
    await expect.poll(requests).toBe(sent);
    gateway.clock.advance(1_000);
    await expect.poll(() => client.text()).toContain("HTTP/1.1 504");
  }
  expect(timesEjected()).toEqual([1, 0]);
});
