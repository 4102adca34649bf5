/** `retry` of a rule, end to end: the repeated requests, their number and waits, and that limits count once. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test } from "vitest";
import { type Echo, echo, respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** A backend that gives these responses in turn, and then always the last one. */
async function backendWith(...responses: readonly Handler[]) {
  let requestCount = 0;
  return startBackend((request, response) =>
    responses[Math.min(requestCount++, responses.length - 1)]?.(request, response),
  );
}

const drop: Handler = (request) => request.socket.destroy();

async function serve(port: number, rule: string, ...more: readonly string[]): Promise<TestGateway> {
  return startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", port),
      routeManifest("r", [`{ ${rule}, backendRefs: [${backendRef("b")}] }`]),
      ...more,
    ),
  );
}

/** Advances the clock over every wait before a retry, until the response arrives. */
async function fetchWithRetries(gateway: TestGateway, init: RequestInit = {}): Promise<Response> {
  const response = fetch(gateway.url(), init);
  let isThere = false;
  void response.finally(() => (isThere = true)).catch(() => undefined);
  await waitFor(
    () => {
      gateway.clock.advance(100);
      expect(isThere).toBe(true);
    },
    { timeout: 10_000, interval: 2 },
  );
  return response;
}

describe("codes and attempts", () => {
  test.each([500, 502, 503, 504, 429])("a listed %i is not forwarded while attempts remain", async (code) => {
    const { port, requests } = await backendWith(respondWith(code), respondWith(code), respondWith(200, "well"));
    const gateway = await serve(port, `retry: { codes: [${code}], attempts: 3 }`);
    const response = await fetchWithRetries(gateway);
    expect([response.status, await response.text()]).toEqual([200, "well"]);
    expect(requests).toHaveLength(3);
    expect(gateway.records[0]).toMatchObject({ status: 200, attempts: 3, reason: undefined });
  });

  test("the last response is forwarded when no attempt remains", async () => {
    const { port, requests } = await backendWith(respondWith(500, "first"), respondWith(500, "again"));
    const gateway = await serve(port, "retry: { codes: [500], attempts: 2 }");
    const response = await fetchWithRetries(gateway);
    expect([response.status, await response.text()]).toEqual([500, "again"]);
    expect(requests).toHaveLength(3);
  });

  test("a code that is not listed is forwarded", async () => {
    const { port, requests } = await backendWith(respondWith(503), respondWith(200));
    const gateway = await serve(port, "retry: { codes: [500], attempts: 3 }");
    expect((await fetchWithRetries(gateway)).status).toBe(503);
    expect(requests).toHaveLength(1);
  });

  test("one more attempt is the default", async () => {
    const { port, requests } = await backendWith(respondWith(500));
    expect((await fetchWithRetries(await serve(port, "retry: { codes: [500] }"))).status).toBe(500);
    expect(requests).toHaveLength(2);
  });

  test.each([
    ["a listed code", respondWith(503), 503],
    ["a connection that is reset", drop, 502],
  ])("no attempts disable retries: %s", async (_, first, status) => {
    const { port, requests } = await backendWith(first, respondWith(200));
    const gateway = await serve(port, "retry: { codes: [503], attempts: 0 }");
    expect((await fetchWithRetries(gateway)).status).toBe(status);
    expect(requests).toHaveLength(1);
  });
});

describe("attempts without a response", () => {
  test("a connection that is reset is retried if the method is idempotent", async () => {
    const { port, requests } = await backendWith(drop, drop, echo);
    const gateway = await serve(port, "retry: { attempts: 2 }");
    const response = await fetchWithRetries(gateway, { method: "PUT", body: "order 7" });
    expect(((await response.json()) as Echo).body).toBe("order 7");
    expect(requests).toHaveLength(3);
  });

  test("a POST that was reset is not sent twice, since the backend may have processed it", async () => {
    const { port, requests } = await backendWith(drop, echo);
    const gateway = await serve(port, "retry: { codes: [503], attempts: 2 }");
    expect((await fetchWithRetries(gateway, { method: "POST", body: "order 7" })).status).toBe(502);
    expect(requests).toHaveLength(1);
  });

  test("a POST that exceeds backendRequest is not sent twice either", async () => {
    const { port, requests } = await backendWith(() => undefined, respondWith(200));
    const gateway = await serve(port, "timeouts: { backendRequest: 400ms }, retry: { attempts: 1 }");
    expect((await fetchWithRetries(gateway, { method: "POST", body: "order 7" })).status).toBe(504);
    expect(requests).toHaveLength(1);
  });

  test("without retry a POST that was reset is never sent twice", async () => {
    const { port, requests } = await backendWith(drop, echo);
    const gateway = await serve(port, "matches: []");
    expect((await fetchWithRetries(gateway, { method: "POST", body: "order 7" })).status).toBe(502);
    expect(requests).toHaveLength(1);
  });

  test("an attempt that takes longer than backendRequest is retried", async () => {
    const { port, requests } = await backendWith(() => undefined, respondWith(200, "quick"));
    const gateway = await serve(port, "timeouts: { backendRequest: 400ms }, retry: { attempts: 1 }");
    const response = fetch(gateway.url());
    await waitFor(() => expect(requests).toHaveLength(1));
    gateway.clock.advance(400);
    gateway.clock.advance(25);
    expect(await (await response).text()).toBe("quick");
  });

  test("a failed connection is retried at another endpoint", async () => {
    const { port, requests } = await startBackend(respondWith(200));
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        `
apiVersion: v1
kind: Service
metadata: { name: svc, namespace: default }
spec: { ports: [{ port: 80 }] }
`,
        ...[1, port].map(
          (endpointPort) => `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: svc-${endpointPort}, namespace: default, labels: { kubernetes.io/service-name: svc } }
addressType: IPv4
ports: [{ port: ${endpointPort} }]
endpoints: [{ addresses: [127.0.0.1], conditions: { ready: true } }]
`,
        ),
        routeManifest("r", ["{ backendRefs: [{ name: svc, port: 80 }] }"]),
      ),
    );
    for (let n = 0; n < 5; n++) expect((await fetch(gateway.url())).status).toBe(200);
    expect(requests).toHaveLength(5);
    expect(gateway.records.map(({ attempts }) => attempts)).toContain(2);
  });
});

describe("waits", () => {
  test("grow from the rule's backoff, and are never shorter", async () => {
    const { port, requests } = await backendWith(respondWith(500));
    const gateway = await serve(port, "retry: { codes: [500], attempts: 3, backoff: 200ms }");
    const response = fetch(gateway.url());
    for (const [calls, waitMs] of [200, 400, 800].entries()) {
      // During the wait, its timer is the only one.
      await waitFor(() => expect([requests.length, gateway.clock.pendingTimers]).toEqual([calls + 1, 1]));
      gateway.clock.advance(waitMs - 1);
      expect([requests.length, gateway.clock.pendingTimers]).toEqual([calls + 1, 1]);
      gateway.clock.advance(1);
    }
    expect((await response).status).toBe(500);
    expect(requests).toHaveLength(4);
  });

  test("end at the request's timeout", async () => {
    const { port, requests } = await backendWith(respondWith(500), () => undefined);
    const gateway = await serve(
      port,
      "timeouts: { request: 1s }, retry: { codes: [500], attempts: 5, backoff: 300ms }",
    );
    const response = fetch(gateway.url());
    await waitFor(() => expect(gateway.clock.pendingTimers).toBe(2));
    gateway.clock.advance(300);
    await waitFor(() => expect(requests).toHaveLength(2));
    gateway.clock.advance(700);
    expect((await response).status).toBe(504);
    expect(gateway.records[0]).toMatchObject({ reason: "RequestTimeout", attempts: 2 });
  });

  test("that would end after the request's timeout are not begun: the client gets the last response", async () => {
    const { port } = await backendWith(respondWith(503, "busy"));
    const gateway = await serve(port, "timeouts: { request: 1s }, retry: { codes: [503], backoff: 5s }");
    expect(await (await fetch(gateway.url())).text()).toBe("busy");
  });

  test("end when the client disconnects", async () => {
    const { port, requests } = await backendWith(respondWith(500));
    const gateway = await serve(port, "retry: { codes: [500], attempts: 3 }");
    const client = new AbortController();
    const response = fetch(gateway.url(), { signal: client.signal });
    // Before the backend has the request, the timer is that of the connection.
    await waitFor(() => expect([requests.length, gateway.clock.pendingTimers]).toEqual([1, 1]));
    const record = gateway.nextRecord();
    client.abort();
    await expect(response).rejects.toThrow("aborted");
    expect(await record).toMatchObject({ reason: "ClientDisconnect", attempts: 1 });
    expect(gateway.clock.pendingTimers).toBe(0);
    expect(requests).toHaveLength(1);
  });
});

describe("bodies", () => {
  test("are sent again completely, also those that arrived in pieces", async () => {
    const { port } = await backendWith((request, response) => {
      request.on("end", () => respondWith(503)(request, response)).resume();
    }, echo);
    const gateway = await serve(port, "retry: { codes: [503] }");
    const body = new ReadableStream({
      start(controller) {
        for (const part of ["one ", "two ", "x".repeat(200_000)]) controller.enqueue(new TextEncoder().encode(part));
        controller.close();
      },
    });
    const reply = await fetchWithRetries(gateway, { method: "POST", body, duplex: "half" });
    expect(((await reply.json()) as Echo).body).toBe(`one two ${"x".repeat(200_000)}`);
  });

  test("longer than the buffer are sent once", async () => {
    const { port, requests } = await backendWith((request, response) => {
      request.on("end", () => respondWith(503)(request, response)).resume();
    });
    const gateway = await serve(port, "retry: { codes: [503] }");
    const reply = await fetchWithRetries(gateway, { method: "POST", body: "x".repeat(1024 * 1024 + 1) });
    expect(reply.status).toBe(503);
    expect(requests).toHaveLength(1);
  });
});

test("limits count a client request once, however many attempts it has", async () => {
  const { port, requests } = await backendWith(respondWith(500), respondWith(500), respondWith(200));
  const gateway = await serve(
    port,
    "retry: { codes: [500], attempts: 2 }",
    policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 10, unit: Hours }"]),
  );
  const response = await fetchWithRetries(gateway);
  expect(response.headers.get("x-ratelimit-remaining")).toBe("9");
  expect(requests).toHaveLength(3);
});

test("a backend that always fails gets no more retries than its retry budget", async () => {
  const { port, requests } = await backendWith(respondWith(500));
  const gateway = await serve(port, "retry: { codes: [500], attempts: 1, backoff: 1ms }");
  // The clock advances only by the waits, so all of this is within ten seconds: 100 retries.
  for (let n = 0; n < 120; n++) {
    const response = fetch(gateway.url());
    let isThere = false;
    void response.then(() => (isThere = true));
    await waitFor(
      () => {
        gateway.clock.advance(1);
        expect(isThere).toBe(true);
      },
      { interval: 1 },
    );
  }
  expect(requests).toHaveLength(220);
});
