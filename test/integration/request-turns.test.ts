/** A client that sends many costly requests at once does not delay those of others until all of them have begun. */
import { expect, test } from "vitest";
import { gatewayManifest, manifests, policyManifest, routeManifest, startGateway } from "../support/gateway.ts";
import { openFrom, type ProxiedClient } from "../support/proxied-client.ts";
import { clientPreface, endHeaders, endStream, frame, frameType, rootRequest } from "../support/raw-http2.ts";

const requests = 40;

/** A gateway with a route whose requests are denied, each of which takes 20 ms of the clock of the worker. */
async function startCostly() {
  const clients: string[] = [];
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      routeManifest("r", ["{ filters: [{ type: RequestRedirect, requestRedirect: { hostname: b } }] }"]),
      policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 1, unit: Hours }"]),
    ),
    {
      expectsProxyHeader: true,
      observer: {
        denied: ({ sourceAddress }) => {
          clients.push(sourceAddress);
          gateway.clock.advance(20);
        },
      },
    },
  );
  const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  const first = openFrom(gateway, "10.0.0.3", get);
  await expect.poll(first.text).toContain(" 302 ");
  const stream = (at: number): Buffer => frame(frameType.headers, endHeaders | endStream, 2 * at + 1, rootRequest);
  const sendMany = (): ProxiedClient => {
    const head = Buffer.concat([
      frame(frameType.settings, 0, 0),
      ...Array.from({ length: requests }, (_, at) => stream(at)),
    ]);
    const client = openFrom(gateway, "10.0.0.1", clientPreface);
    client.socket.write(head);
    return client;
  };
  return { gateway, clients, sendMany, get };
}

test("a request of another client begins after a few of them", async () => {
  const { gateway, clients, sendMany, get } = await startCostly();
  sendMany();
  await expect.poll(() => clients.length, { interval: 1 }).toBeGreaterThan(0);
  expect(clients.length).toBeLessThan(requests / 2);
  const other = openFrom(gateway, "10.0.0.2", get);
  await expect.poll(other.text).toContain(" 429 ");
  expect(clients.indexOf("10.0.0.2")).toBeLessThan(requests);
  await expect.poll(() => clients.length).toBe(requests + 1);
});

test("those of a client that leaves before their turn do not begin", async () => {
  const { gateway, clients, sendMany } = await startCostly();
  const many = sendMany();
  await expect.poll(() => clients.length, { interval: 1 }).toBeGreaterThan(0);
  many.socket.destroy();
  await expect.poll(() => gateway.records.length).toBe(requests + 1);
  expect(clients.length).toBeLessThan(requests);
});
