/** `refundOn` of a policy: which failures give a request's unit back, and that a client can cause none of the default ones. */
import { type AddressInfo, connect, createServer } from "node:net";
import { describe, expect, test, vi } from "vitest";
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

async function ask(gateway: TestGateway, init: RequestInit = {}): Promise<readonly [number, string | null]> {
  const response = await fetch(gateway.url(), init);
  await response.arrayBuffer();
  return [response.status, response.headers.get("x-ratelimit-remaining")];
}

const breaksOff: Listener = (request) => void request.destroy();
const closedPort = 1;

describe("by default", () => {
  test.each<[string, Listener, number]>([
    ["a 5xx of the backend", respondWith(503), 503],
    ["a backend that breaks off", breaksOff, 502],
  ])("%s keeps the unit, and the backend is asked no more than the limit says", async (_, behave, status) => {
    const backend = await startBackend(behave);
    const gateway = await serve(backend.port);
    // A POST is not sent again.
    const post = { method: "POST" };
    expect([await ask(gateway, post), await ask(gateway, post), await ask(gateway, post)]).toEqual([
      [status, "1"],
      [status, "0"],
      [429, "0"],
    ]);
    expect(backend.requests).toHaveLength(2);
  });

  test.each(["request: 1s", "backendRequest: 1s"])("a timeout keeps the unit: %s", async (timeout) => {
    const backend = await startBackend(() => undefined);
    const gateway = await serve(backend.port, undefined, `timeouts: { ${timeout} }, `);
    for (const sent of [1, 2]) {
      const response = ask(gateway, { method: "POST" });
      await vi.waitFor(() => expect(backend.requests).toHaveLength(sent));
      gateway.clock.advance(1_000);
      expect(await response).toEqual([504, String(2 - sent)]);
    }
    expect((await ask(gateway))[0]).toBe(429);
  });

  test("an upload that the client lets stall keeps the unit", async () => {
    const { port } = await startBackend();
    const texts = [
      gatewayManifest(),
      backendManifest("b", port),
      routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
    ];
    const gateway = await startGateway(manifests(...texts, policy(undefined)), { streamIdleTimeoutMs: 10_000 });
    const socket = connect(Number(new URL(gateway.url()).port), "127.0.0.1");
    socket.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    const answered = socket.take(1).toArray();
    await vi.waitFor(() => {
      gateway.clock.advance(10_000);
      expect(gateway.records).toMatchObject([{ status: 408 }]);
    });
    expect(String((await answered)[0])).toMatch(/^HTTP\/1.1 408 [^]*x-ratelimit-remaining: 1\r\n/);
    socket.destroy();
  });

  test("no connection to the backend gives the unit back", async () => {
    const gateway = await serve(closedPort);
    for (let n = 0; n < 4; n++) expect(await ask(gateway)).toEqual([503, "2"]);
  });

  test("no ready endpoint gives the unit back", async () => {
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        serviceManifest("s", []),
        routeManifest("r", ["backendRefs: [{ name: s, port: 80 }]"]),
        policy(undefined),
      ),
    );
    for (let n = 0; n < 4; n++) expect(await ask(gateway)).toEqual([503, "2"]);
  });

  test("an endpoint that has left does not give the unit back of a request that it has seen", async () => {
    const server = createServer((socket) => {
      socket.once("data", () => {
        server.close();
        socket.end("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    // A TCP server that listens has such an address.
    const { port } = server.address() as AddressInfo;
    const gateway = await serve(port, undefined, "retry: { codes: [503], attempts: 1 }, ");
    const response = ask(gateway);
    await vi.waitFor(() => {
      gateway.clock.advance(100);
      expect(gateway.records).toMatchObject([{ calls: 2, reason: "UpstreamConnectFailure" }]);
    });
    expect(await response).toEqual([503, "1"]);
  });
});

describe("where the policy says so", () => {
  test.each<[string, Listener, number]>([
    ["BackendError", respondWith(500), 500],
    ["Reset", breaksOff, 502],
  ])("%s gives the unit back, and the answer tells of it", async (cause, behave, status) => {
    const gateway = await serve((await startBackend(behave)).port, `[${cause}]`);
    for (let n = 0; n < 4; n++) expect(await ask(gateway, { method: "POST" })).toEqual([status, "2"]);
  });

  test("Timeout gives the unit back", async () => {
    const backend = await startBackend(() => undefined);
    const gateway = await serve(backend.port, "[Timeout]", "timeouts: { request: 1s }, ");
    for (const sent of [1, 2, 3]) {
      const response = ask(gateway, { method: "POST" });
      await vi.waitFor(() => expect(backend.requests).toHaveLength(sent));
      gateway.clock.advance(1_000);
      expect(await response).toEqual([504, "2"]);
    }
  });

  test("BackendError tells of the unit before the body ends", async () => {
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

  test("an empty list gives nothing back", async () => {
    const gateway = await serve(closedPort, "[]");
    expect([await ask(gateway), await ask(gateway), await ask(gateway)]).toEqual([
      [503, "1"],
      [503, "0"],
      [429, "0"],
    ]);
  });
});
