/** `timeouts` of a rule, end to end, on a clock that the test advances. */
import type { ServerResponse } from "node:http";
import { connect } from "node:net";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";

/** A backend that responds when the test says so, and reports when an attempt was reset. */
async function slowBackend() {
  const { promise: received, resolve: arrive } = Promise.withResolvers<ServerResponse>();
  const { promise: left, resolve: leave } = Promise.withResolvers<undefined>();
  const backend = await startBackend((_request, response) => {
    response.on("close", () => leave(undefined));
    arrive(response);
  });
  return { ...backend, received, left };
}

async function serve(port: number, timeouts: string, ...more: readonly string[]): Promise<TestGateway> {
  return startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", port),
      routeManifest("r", [`{ timeouts: { ${timeouts} }, backendRefs: [${backendRef("b")}] }`]),
      ...more,
    ),
  );
}

describe.each([
  ["request", "RequestTimeout"],
  ["backendRequest", "UpstreamTimeout"],
])("%s", (field, reason) => {
  test("504 if no response has started by then, and the attempt ends", async () => {
    const backend = await slowBackend();
    const gateway = await serve(backend.port, `${field}: 500ms`);
    const response = fetch(gateway.url());
    await backend.received;
    gateway.clock.advance(500);
    expect((await response).status).toBe(504);
    await backend.left;
    expect(gateway.records[0]).toMatchObject({ status: 504, reason, attempts: 1 });
    await waitFor(() => expect(gateway.clock.pendingTimers).toBe(0));
  });

  test("a response in time passes, and leaves no timer behind", async () => {
    const backend = await slowBackend();
    const gateway = await serve(backend.port, `${field}: 500ms`);
    const reply = fetch(gateway.url());
    const response = await backend.received;
    gateway.clock.advance(499);
    response.end("made it");
    expect(await (await reply).text()).toBe("made it");
    await waitFor(() => expect(gateway.clock.pendingTimers).toBe(0));
  });

  test("a response that streams longer is reset, so that the client sees that it is incomplete", async () => {
    const backend = await slowBackend();
    const gateway = await serve(backend.port, `${field}: 500ms`);
    const received = fetch(gateway.url());
    (await backend.received).write("first");
    const reader = (await received).body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe("first");
    gateway.clock.advance(500);
    await expect(reader?.read()).rejects.toThrow("terminated");
    await backend.left;
    await waitFor(() => expect(gateway.records[0]).toMatchObject({ status: 200, reason }));
  });

  test("0s means no timeout at all", async () => {
    const backend = await slowBackend();
    const gateway = await serve(backend.port, `${field}: 0s`);
    const reply = fetch(gateway.url());
    const response = await backend.received;
    expect(gateway.clock.pendingTimers).toBe(0);
    gateway.clock.advance(86_400_000);
    response.end("late");
    expect(await (await reply).text()).toBe("late");
  });
});

test("the request's time includes its upload", async () => {
  const { port } = await startBackend();
  const gateway = await serve(port, "request: 2s");
  const { hostname, port: own } = new URL(gateway.url());
  const socket = connect(Number(own), hostname);
  socket.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
  await waitFor(() => expect(gateway.clock.pendingTimers).toBe(1));
  gateway.clock.advance(2_000);
  const [head] = (await socket.take(1).toArray()) as Buffer[];
  expect(String(head)).toMatch(/^HTTP\/1.1 504 /);
  socket.destroy();
});

test("timeouts apply to each request of an HTTP/1 connection", async () => {
  const { port } = await startBackend(respondWith(200, "quick"));
  const gateway = await serve(port, "request: 1s, backendRequest: 500ms");
  for (let n = 0; n < 3; n++) {
    expect(await (await fetch(gateway.url())).text()).toBe("quick");
    gateway.clock.advance(800);
  }
});
