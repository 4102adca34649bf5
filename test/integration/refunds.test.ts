/** `refundOn` of a policy: the failures that refund a request, and that a client can cause none of the default ones. */
import { type AddressInfo, connect, createServer } from "node:net";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  serviceManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";

type Listener = NonNullable<Parameters<typeof startBackend>[0]>;

/** Two requests an hour on one route; `refundOn` is flow YAML of the list. */
function policy(refundOn: string | undefined): string {
  const text = policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 2, unit: Hours }"]);
  return refundOn === undefined ? text : `${text.trimEnd()}\n      refundOn: ${refundOn}\n`;
}

async function serve(port: number, refundOn?: string, rule = ""): Promise<TestGateway> {
  return startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", port),
      routeManifest("r", [`{ ${rule}backendRefs: [${backendRef("b")}] }`]),
      policy(refundOn),
    ),
  );
}

async function send(gateway: TestGateway, init: RequestInit = {}): Promise<readonly [number, string | null]> {
  const response = await fetch(gateway.url(), init);
  await response.arrayBuffer();
  return [response.status, response.headers.get("x-ratelimit-remaining")];
}

const resets: Listener = (request) => void request.destroy();
const closedPort = 1;

describe("by default", () => {
  test.each<[string, Listener, number]>([
    ["a 5xx of the backend", respondWith(503), 503],
    ["a backend that resets", resets, 502],
  ])("%s is not refunded, and the backend gets no more requests than the limit", async (_, behave, status) => {
    const backend = await startBackend(behave);
    const gateway = await serve(backend.port);
    // A POST is not retried.
    const post = { method: "POST" };
    expect([await send(gateway, post), await send(gateway, post), await send(gateway, post)]).toEqual([
      [status, "1"],
      [status, "0"],
      [429, "0"],
    ]);
    expect(backend.requests).toHaveLength(2);
  });

  test.each(["request: 1s", "backendRequest: 1s"])("a timeout is not refunded: %s", async (timeout) => {
    const backend = await startBackend(() => undefined);
    const gateway = await serve(backend.port, undefined, `timeouts: { ${timeout} }, `);
    for (const sent of [1, 2]) {
      const response = send(gateway, { method: "POST" });
      await waitFor(() => expect(backend.requests).toHaveLength(sent));
      gateway.clock.advance(1_000);
      expect(await response).toEqual([504, String(2 - sent)]);
    }
    expect((await send(gateway))[0]).toBe(429);
  });

  test("an upload that the client stalls is not refunded", async () => {
    const { port } = await startBackend();
    const texts = [
      gatewayManifest(),
      backendManifest("b", port),
      routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
    ];
    const gateway = await startGateway(manifests(...texts, policy(undefined)), { streamIdleTimeoutMs: 10_000 });
    const socket = connect(Number(new URL(gateway.url()).port), "127.0.0.1");
    socket.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    const received = socket.take(1).toArray();
    await waitFor(() => {
      gateway.clock.advance(10_000);
      expect(gateway.records).toMatchObject([{ status: 408 }]);
    });
    expect(String((await received)[0])).toMatch(/^HTTP\/1.1 408 [^]*x-ratelimit-remaining: 1\r\n/);
    socket.destroy();
  });

  test("a request without a connection to the backend is refunded", async () => {
    const gateway = await serve(closedPort);
    for (let n = 0; n < 4; n++) expect(await send(gateway)).toEqual([503, "2"]);
  });

  test("a request without a ready endpoint is refunded", async () => {
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        serviceManifest("s", []),
        routeManifest("r", ["backendRefs: [{ name: s, port: 80 }]"]),
        policy(undefined),
      ),
    );
    for (let n = 0; n < 4; n++) expect(await send(gateway)).toEqual([503, "2"]);
  });

  test("a request that reached an endpoint is not refunded, even if the endpoint is then removed", async () => {
    const server = createServer((socket) => {
      // The proxy resets the connection of a response that it does not forward.
      socket.on("error", () => undefined);
      socket.once("data", () => {
        server.close();
        socket.end("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    // A listening TCP server has such an address.
    const { port } = server.address() as AddressInfo;
    const gateway = await serve(port, undefined, "retry: { codes: [503], attempts: 1 }, ");
    const response = send(gateway);
    await waitFor(() => {
      gateway.clock.advance(100);
      expect(gateway.records).toMatchObject([{ attempts: 2, reason: "UpstreamConnectFailure" }]);
    });
    expect(await response).toEqual([503, "1"]);
  });
});

describe("if the policy says so", () => {
  test.each<[string, Listener, number]>([
    ["BackendError", respondWith(500), 500],
    ["Reset", resets, 502],
  ])("%s is refunded, and the headers show it", async (cause, behave, status) => {
    const gateway = await serve((await startBackend(behave)).port, `[${cause}]`);
    for (let n = 0; n < 4; n++) expect(await send(gateway, { method: "POST" })).toEqual([status, "2"]);
  });

  test("Timeout is refunded", async () => {
    const backend = await startBackend(() => undefined);
    const gateway = await serve(backend.port, "[Timeout]", "timeouts: { request: 1s }, ");
    for (const sent of [1, 2, 3]) {
      const response = send(gateway, { method: "POST" });
      await waitFor(() => expect(backend.requests).toHaveLength(sent));
      gateway.clock.advance(1_000);
      expect(await response).toEqual([504, "2"]);
    }
  });

  test("the headers show the refund of BackendError before the body ends", async () => {
    const end = Promise.withResolvers<undefined>();
    const backend = await startBackend((_request, response) => {
      response.writeHead(503).write("sorry");
      void end.promise.then(() => response.end());
    });
    const response = await fetch((await serve(backend.port, "[BackendError]")).url());
    expect(response.headers.get("x-ratelimit-remaining")).toBe("2");
    end.resolve(undefined);
    expect(await response.text()).toBe("sorry");
  });

  test("an empty list refunds nothing", async () => {
    const gateway = await serve(closedPort, "[]");
    expect([await send(gateway), await send(gateway), await send(gateway)]).toEqual([
      [503, "1"],
      [503, "0"],
      [429, "0"],
    ]);
  });
});
