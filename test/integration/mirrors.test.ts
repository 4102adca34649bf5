/** RequestMirror, end to end: the targets and content of copies, and that mirrors do not affect the request. */
import { hash } from "node:crypto";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test } from "vitest";
import { BodyBudget, createBodyMemory } from "../../proxy/src/pipeline/body/body-budget.ts";
import { type Echo, echo, respondWith, startBackend, type TestBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";

function mirror(name: string, share = ""): string {
  return `{ type: RequestMirror, requestMirror: { backendRef: { group: gatewayproxy.dev, kind: Backend, name: ${name} } ${share} } }`;
}

/** A backend that records the bodies of its requests. */
async function listener(): Promise<TestBackend & { readonly seen: Echo[] }> {
  const seen: Echo[] = [];
  const backend = await startBackend((request, response) => {
    const end = response.end.bind(response);
    // `echo` ends with the request as JSON.
    response.end = (text?: unknown) => {
      seen.push(JSON.parse(String(text)) as Echo);
      return end(text);
    };
    echo(request, response);
  });
  return { ...backend, seen };
}

async function serve(filters: string, ...mirrors: readonly TestBackend[]): Promise<TestGateway> {
  const main = await startBackend();
  return startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("main", main.port),
      ...mirrors.map(({ port }, index) => backendManifest(`copy${index}`, port)),
      routeManifest("r", [`{ filters: [${filters}], backendRefs: [${backendRef("main")}] }`]),
    ),
  );
}

test("every mirror gets the request after the filters, and the client gets the response of the backend", async () => {
  const [a, b] = [await listener(), await listener()];
  const edit =
    "{ type: RequestHeaderModifier, requestHeaderModifier: { set: [{ name: X-Set, value: s }], remove: [X-Old] } }";
  const gateway = await serve(`${mirror("copy0")}, ${edit}, ${mirror("copy1")}`, a, b);
  const response = await fetch(`${gateway.url()}/path?x=1`, {
    method: "POST",
    body: "hello",
    headers: { "x-old": "1" },
  });
  const original = (await response.json()) as Echo;
  await waitFor(() => expect([a.seen.length, b.seen.length]).toEqual([1, 1]));
  expect(a.seen[0]).toMatchObject({ method: "POST", url: "/path?x=1", body: "hello" });
  expect(a.seen[0]?.headers).toMatchObject({ "x-set": "s", "x-request-id": original.headers["x-request-id"] });
  expect(a.seen[0]?.headers).not.toHaveProperty("x-old");
  expect(b.seen).toEqual(a.seen);
});

describe("shares", () => {
  test.each([
    [", percent: 20", 20],
    [", fraction: { numerator: 1, denominator: 2 }", 50],
    [", fraction: { numerator: 35 }", 35],
    [", percent: 0", 0],
    [", percent: 100", 100],
  ])("{ %s }: %i of 100 requests", async (share, copies) => {
    const copy = await startBackend(respondWith(200));
    const gateway = await serve(mirror("copy0", share), copy);
    for (let n = 0; n < 100; n++) await (await fetch(gateway.url())).arrayBuffer();
    await waitFor(() => expect(copy.requests).toHaveLength(copies));
  });
});

test("copies that wait for mirrors hold a quarter of the memory for bodies, and a request that has no room is not copied", async () => {
  const mib = 1024 * 1024;
  const silent = await startBackend(() => undefined);
  const main = await startBackend(respondWith(200));
  const outcomes: string[] = [];
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("main", main.port),
      backendManifest("copy0", silent.port),
      routeManifest("r", [`{ filters: [${mirror("copy0")}], backendRefs: [${backendRef("main")}] }`]),
    ),
    {
      bodies: new BodyBudget(createBodyMemory(1), 1, 8 * mib),
      observer: { mirrored: (_, outcome) => outcomes.push(outcome) },
    },
  );
  const send = async (length: number): Promise<number> => {
    const { status } = await fetch(gateway.url(), { method: "POST", body: "x".repeat(length) });
    return status;
  };
  for (let n = 0; n < 20; n++) expect(await send(mib / 4 - 16_384)).toBe(200);
  await waitFor(() => expect(silent.requests).toHaveLength(8));
  expect(outcomes).toEqual(Array.from({ length: 12 }, () => "skipped"));
  // Each copy counts, also one of a request without a body.
  expect((await fetch(gateway.url())).status).toBe(200);
  expect(outcomes).toHaveLength(13);
  // They end, and leave room for others.
  gateway.clock.advance(15_000);
  expect(outcomes.filter((each) => each === "failed")).toHaveLength(8);
  expect(await send(10)).toBe(200);
  await waitFor(() => expect(silent.requests).toHaveLength(9));
});

describe("a mirror never delays or fails a request", () => {
  test("that it does not respond to", async () => {
    const copy = await startBackend(() => undefined);
    const gateway = await serve(mirror("copy0"), copy);
    expect((await fetch(gateway.url())).status).toBe(200);
    await waitFor(() => expect(copy.requests).toHaveLength(1));
    // Closed after a while, so that copies without a response do not accumulate.
    const closed = new Promise((resolve) => copy.requests[0]?.socket.on("close", resolve));
    gateway.clock.advance(15_000);
    await closed;
  });

  test("that it rejects, resets, or responds to with an error", async () => {
    const broken = await startBackend((request) => request.socket.destroy());
    const failing = await startBackend(respondWith(500));
    const gateway = await serve(`${mirror("copy0")}, ${mirror("copy1")}, ${mirror("copy2")}`, broken, failing, {
      port: 1,
      requests: [],
    });
    for (let n = 0; n < 3; n++) expect((await fetch(gateway.url())).status).toBe(200);
  });

  test("whose body streams in pieces: the copy is sent when the body is complete", async () => {
    const copy = await listener();
    const gateway = await serve(mirror("copy0"), copy);
    const body = new ReadableStream({
      start(controller) {
        for (const part of ["one ", "two ", "three"]) controller.enqueue(new TextEncoder().encode(part));
        controller.close();
      },
    });
    const response = await fetch(gateway.url(), { method: "POST", body, duplex: "half" });
    expect(((await response.json()) as Echo).body).toBe("one two three");
    await waitFor(() => expect(copy.seen.map((seen) => seen.body)).toEqual(["one two three"]));
  });

  test("whose body is longer than a copy may be: there is no copy", async () => {
    const copy = await startBackend(respondWith(200));
    const gateway = await serve(mirror("copy0"), copy);
    const long = await fetch(gateway.url(), { method: "POST", body: "x".repeat(1024 * 1024 + 1) });
    expect(((await long.json()) as Echo).body).toHaveLength(1024 * 1024 + 1);
    // The next copy proves that none was sent before it.
    await (await fetch(`${gateway.url()}/next`)).arrayBuffer();
    await waitFor(() => expect(copy.requests.map(({ url }) => url)).toEqual(["/next"]));
  });
});

/** A rule of two backendRefs to one backend, of which the one with a quarter of the weight has a mirror. */
async function serveQuarterMirrored() {
  const [main, copy] = [await startBackend(respondWith(200)), await startBackend(respondWith(200))];
  const mirrored = `{ group: gatewayproxy.dev, kind: Backend, name: main, weight: 1, filters: [${mirror("copy0")}] }`;
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("main", main.port),
      backendManifest("copy0", copy.port),
      routeManifest("r", [`{ backendRefs: [${backendRef("main", 3)}, ${mirrored}] }`]),
    ),
  );
  return { gateway, main, copy };
}

test("a mirror on a backendRef copies that backend's requests only", async () => {
  const { gateway, main, copy } = await serveQuarterMirrored();
  for (let n = 0; n < 8; n++) await (await fetch(gateway.url())).arrayBuffer();
  await waitFor(() => expect(copy.requests).toHaveLength(2));
  expect(main.requests).toHaveLength(8);
});

test("ResolvedRefs reports a mirror without a backend, and the rule is served", async () => {
  const main = await startBackend(respondWith(200, "main"));
  const gateway = await startGateway(gatewayManifest());
  const { statuses } = await gateway.apply(
    manifests(
      gatewayManifest(),
      backendManifest("main", main.port),
      routeManifest("r", [`{ filters: [${mirror("nowhere")}], backendRefs: [${backendRef("main")}] }`]),
    ),
  );
  expect(statuses.httpRoutes[0]?.parents[0]?.conditions).toMatchObject([
    { type: "Accepted", status: "True" },
    { type: "ResolvedRefs", status: "False", reason: "BackendNotFound" },
  ]);
  expect(await (await fetch(gateway.url())).text()).toBe("main");
});

describe("a client that sends CDN-Loop itself", () => {
  const name = `gateway-proxy-${hash("sha256", "default/web").slice(0, 8)}`;
  const send = async (gateway: TestGateway, loop: string): Promise<number> => {
    const response = await fetch(gateway.url(), { headers: { "cdn-loop": loop } });
    await response.arrayBuffer();
    return response.status;
  };

  test.each(["other.example; mirrored", name, `${name}; v=1`, `${name}, ${name}`])(
    "gets no response without a copy: %s",
    async (loop) => {
      const copy = await startBackend(respondWith(200));
      const gateway = await serve(mirror("copy0"), copy);
      expect(await send(gateway, loop)).toBe(200);
      await waitFor(() => expect(copy.requests).toHaveLength(1));
      expect(copy.requests[0]?.headers["cdn-loop"]).toBe(`${loop}, ${name}; mirrored`);
    },
  );

  test.each([
    ["a share of the requests", mirror("copy0", ", percent: 1")],
    ["all requests", mirror("copy0")],
  ])("is rejected if the field says that the request was mirrored, by a rule that mirrors %s", async (_, filter) => {
    const copy = await startBackend(respondWith(200));
    const gateway = await serve(filter, copy);
    for (let n = 0; n < 5; n++) expect(await send(gateway, `${name};Mirrored`)).toBe(508);
    expect(gateway.records.at(-1)).toMatchObject({ reason: "LoopDetected", attempts: 0 });
    expect(copy.requests).toEqual([]);
  });

  test("is rejected whichever target of the rule has the mirror", async () => {
    const { gateway, main } = await serveQuarterMirrored();
    for (let n = 0; n < 4; n++) expect(await send(gateway, `${name}; mirrored`)).toBe(508);
    expect(main.requests).toEqual([]);
  });

  test("is served by a rule without mirrors", async () => {
    const gateway = await serve("");
    expect(await send(gateway, `${name}; mirrored`)).toBe(200);
  });
});
