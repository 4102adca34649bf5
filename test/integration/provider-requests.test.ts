/**
 * A request at each of several providers: its body, model, credentials and path, and how retries, timeouts and limits
 * apply.
 */
import { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { BodyBudget, createBodyMemory } from "../../proxy/src/pipeline/body/body-budget.ts";
import { startBackend } from "../support/backend.ts";
import { backendManifest } from "../support/gateway.ts";
import {
  type Behavior,
  contentOf,
  type FailoverGateway,
  ok,
  opened,
  reset,
  silent,
  startFailover,
  status,
  stream,
  usage,
} from "../support/scripted-providers.ts";

const key = (name: string): string => `Backend/default/${name}`;
const messages = [{ role: "user" as const, content: "Hi" }];

function lastOf(failover: FailoverGateway, place: number) {
  const last = failover.providers[place]?.received.at(-1);
  if (last === undefined) throw new Error(`provider ${place} got no request`);
  return last;
}

async function advanceUntil<T>({ gateway }: FailoverGateway, response: Promise<T>): Promise<T> {
  let isThere = false;
  void response.finally(() => (isThere = true)).catch(() => undefined);
  await waitFor(
    () => {
      gateway.clock.advance(100);
      expect(isThere).toBe(true);
    },
    { timeout: 10_000, interval: 3 },
  );
  return response;
}

describe("each provider", () => {
  test("gets its own model, key, path and host, from the body as the client sent it", async () => {
    const failover = await startFailover([
      { name: "a", ai: "provider: { openai: { model: gpt-5 } }, path: /first", script: [status(429)] },
      { name: "b", priority: 1, ai: "provider: { azure: { apiVersion: v2 } }", script: [status(500)] },
      { name: "c", priority: 2, ai: "provider: { openaiCompatible: { model: llama } }", script: [ok("third")] },
    ]);
    const response = await failover.chat({ headers: { authorization: "Bearer client-key", "x-kept": "yes" } });
    expect(await contentOf(response)).toBe("third");
    const [a, b, c] = [lastOf(failover, 0), lastOf(failover, 1), lastOf(failover, 2)];
    expect(a.path).toBe("/first/v1/chat/completions");
    expect(b.path).toBe("/v1/chat/completions?api-version=v2");
    expect(c.path).toBe("/v1/chat/completions");
    expect(a.headers).toMatchObject({ authorization: "Bearer key-of-a", "x-kept": "yes" });
    expect(b.headers).toMatchObject({ "api-key": "key-of-b", "x-kept": "yes" });
    expect(b.headers).not.toHaveProperty("authorization");
    expect(c.headers).toMatchObject({ authorization: "Bearer key-of-c", "x-kept": "yes" });
    expect([a, b, c].map(({ body }) => (JSON.parse(body) as { model: string }).model)).toEqual(["gpt-5", "m", "llama"]);
    for (const { body, headers } of [a, b, c]) expect(headers["content-length"]).toBe(String(body.length));
    expect(new Set([a, b, c].map(({ headers }) => headers["x-request-id"])).size).toBe(1);
  });

  test("is the provider of a stream in turn, and the client of OpenAI sees one stream", async () => {
    const failover = await startFailover([
      { name: "a", script: [opened(": wait\n\n", "cut")] },
      { name: "b", priority: 1, script: [stream("second")] },
    ]);
    const openai = new OpenAI({ baseURL: `${failover.gateway.url()}/v1`, apiKey: "client", maxRetries: 0 });
    const events = await Array.fromAsync(await openai.chat.completions.create({ model: "m", messages, stream: true }));
    expect(events.map(({ choices }) => choices[0]?.delta.content ?? "").join("")).toBe("second");
    expect(JSON.parse(lastOf(failover, 1).body)).toMatchObject({ stream_options: { include_usage: true } });
    expect(await failover.charged()).toBe(usage.total_tokens);
  });

  test("with another model than the limit counts changes nothing: it counts by the model of the first one", async () => {
    const failover = await startFailover(
      [
        { name: "a", ai: "provider: { openai: { model: first-model } }", script: [ok("first"), status(429)] },
        { name: "b", priority: 1, ai: "provider: { openai: { model: other } }", script: [ok("second")] },
      ],
      { local: ["{ requests: 2, unit: Hours, key: llm.requestModel }"] },
    );
    const statuses: number[] = [];
    for (let sent = 0; sent < 3; sent++) statuses.push((await failover.chat()).status);
    expect(statuses).toEqual([200, 200, 429]);
  });

  test("that cannot take the request is left out", async () => {
    const failover = await startFailover([
      { name: "a", script: [status(503)] },
      { name: "b", priority: 1, ai: "provider: { openaiCompatible: { model: one } }", script: [ok("second")] },
      { name: "c", priority: 2, script: [ok("third")] },
    ]);
    const body = JSON.stringify({ model: "m", messages, fallback_model: "two" });
    const response = await fetch(`${failover.gateway.url()}/v1/chat/completions`, { method: "POST", body });
    expect(await contentOf(response)).toBe("third");
    expect(failover.providers[1]?.received).toHaveLength(0);
  });

  test("gets requests only at permitted addresses, also after another one has failed", async () => {
    const addresses = new AddressGuard({ own: [], deniesSpecial: true, allowed: [] });
    const list = ["a", "b", "c"].map((name, priority) => ({ name, priority, script: [ok(name)] }));
    const failover = await startFailover(list, { addresses });
    expect((await failover.chat()).status).toBe(500);
    expect(failover.gateway.records[0]).toMatchObject({ reason: "ForbiddenAddress", attempts: 3 });
    expect(failover.providers.map(({ received }) => received.length)).toEqual([0, 0, 0]);
  });
});

test("a mirror gets one copy of a request, as its client sent it", async () => {
  const copies: string[] = [];
  const mirror = await startBackend((request, response) => {
    request.on("data", (bytes: Buffer) => copies.push(bytes.toString())).on("end", () => response.end());
  });
  const to =
    "{ type: RequestMirror, requestMirror: { backendRef: { group: gatewayproxy.dev, kind: Backend, name: copy } } }";
  const failover = await startFailover(
    [
      { name: "a", ai: "provider: { openai: { model: prescribed } }", script: [status(503)] },
      { name: "b", priority: 1, script: [ok("second")] },
    ],
    { rule: `filters: [${to}]`, more: backendManifest("copy", mirror.port) },
  );
  expect(await contentOf(await failover.chat())).toBe("second");
  await waitFor(() => expect(copies).toHaveLength(1));
  expect(JSON.parse(copies[0] ?? "")).toMatchObject({ model: "m" });
});

describe("a body", () => {
  const upload = (failover: FailoverGateway, bytes: number) =>
    fetch(`${failover.gateway.url()}/v1/audio/transcriptions`, {
      method: "POST",
      headers: { "content-type": "multipart/form-data; boundary=x" },
      body: Buffer.alloc(bytes, "-"),
    });

  test("of a megabyte is sent again from its first byte", async () => {
    const failover = await startFailover([
      { name: "a", script: [status(503)] },
      { name: "b", priority: 1, script: [ok("second")] },
    ]);
    expect((await upload(failover, 2 ** 20)).status).toBe(200);
    expect(lastOf(failover, 1).body).toHaveLength(2 ** 20);
  });

  test("that the memory for bodies cannot keep is sent to one provider, whose response the client gets", async () => {
    const bodies = new BodyBudget(createBodyMemory(1), 1, 512 * 1024);
    const failover = await startFailover(
      [
        { name: "a", script: [status(503)] },
        { name: "b", priority: 1, script: [ok("second")] },
      ],
      { bodies },
    );
    expect((await upload(failover, 2 ** 20)).status).toBe(503);
    expect(lastOf(failover, 0).body).toHaveLength(2 ** 20);
    expect(failover.providers[1]?.received).toHaveLength(0);
    expect(bodies.heldBytes).toBe(0);
  });

  test("that is edited is kept twice, or not sent again where the memory has no room for both", async () => {
    const bodies = new BodyBudget(createBodyMemory(1), 1, 512 * 1024);
    const prescribed = "provider: { openaiCompatible: { model: one } }";
    const failover = await startFailover(
      [
        { name: "a", ai: prescribed, script: [status(503)] },
        { name: "b", priority: 1, ai: prescribed, script: [ok("second")] },
      ],
      { bodies },
    );
    const send = (length: number) =>
      fetch(`${failover.gateway.url()}/v1/chat/completions`, {
        method: "POST",
        body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "x".repeat(length) }] }),
      });
    expect((await send(100_000)).status).toBe(200);
    expect((await send(300_000)).status).toBe(503);
    expect(bodies.heldBytes).toBe(0);
  });
});

describe("a retry policy", () => {
  test("begins when no provider is left, and the next round uses each again", async () => {
    const failover = await startFailover(
      [
        { name: "a", script: [status(503), ok("first")] },
        { name: "b", priority: 1, script: [status(500)] },
      ],
      { rule: "retry: { codes: [500], attempts: 1, backoff: 100ms }" },
    );
    const response = await advanceUntil(failover, failover.chat());
    expect(await contentOf(response)).toBe("first");
    expect(failover.providers.map(({ received }) => received.length)).toEqual([2, 1]);
    expect(failover.gateway.records[0]).toMatchObject({ attempts: 3, provider: key("a") });
    expect(await failover.charged()).toBe(usage.total_tokens);
  });

  test("counts rounds, so the last response of the last round is forwarded", async () => {
    const failover = await startFailover(
      [
        { name: "a", script: [status(503)] },
        { name: "b", priority: 1, script: [status(500)] },
      ],
      { rule: "retry: { codes: [500], attempts: 2, backoff: 100ms }" },
    );
    expect((await advanceUntil(failover, failover.chat())).status).toBe(500);
    expect(failover.providers.map(({ received }) => received.length)).toEqual([3, 3]);
  });
});

describe("a timeout", () => {
  test("of an attempt (backendRequest) moves the request", async () => {
    const failover = await startFailover(
      [
        { name: "a", script: [silent] },
        { name: "b", priority: 1, script: [ok("second")] },
      ],
      { rule: "timeouts: { backendRequest: 5s }" },
    );
    expect(await contentOf(await advanceUntil(failover, failover.chat()))).toBe("second");
  });

  test("of the request spans all providers", async () => {
    const failover = await startFailover(
      [
        { name: "a", script: [silent] },
        { name: "b", priority: 1, script: [silent] },
      ],
      { rule: "timeouts: { request: 5s }", failover: "{ firstByteTimeout: 3s }" },
    );
    const response = await advanceUntil(failover, failover.chat());
    expect([response.status, failover.gateway.records[0]?.reason]).toEqual([504, "RequestTimeout"]);
    expect(failover.providers.map(({ received }) => received.length)).toEqual([1, 1]);
  });
});

describe("a limit of requests", () => {
  const refunded = "{ requests: 10, unit: Hours }";
  test("counts a request once, whatever was discarded", async () => {
    const failover = await startFailover(
      [
        { name: "a", script: [status(429)] },
        { name: "b", priority: 1, script: [reset] },
        { name: "c", priority: 2, script: [ok("third")] },
      ],
      { local: [refunded] },
    );
    expect((await failover.chat()).headers.get("x-ratelimit-remaining")).toBe("9");
  });

  test("is refunded by what the last provider did", async () => {
    const failover = await startFailover(
      [
        { name: "a", script: [status(503)] },
        { name: "b", priority: 1, script: [status(500)] },
      ],
      { local: [refunded], refundOn: "[BackendError]" },
    );
    expect((await failover.chat()).headers.get("x-ratelimit-remaining")).toBe("10");
  });

  test("is not refunded as unreached if one provider got the request", async () => {
    const failover = await startFailover(
      [
        { name: "a", script: [status(503)] },
        { name: "b", priority: 1, script: "away" },
      ],
      {
        local: [refunded],
      },
    );
    const response = await failover.chat();
    expect([response.status, response.headers.get("x-ratelimit-remaining")]).toEqual([503, "9"]);
  });

  test("is refunded if no provider could be reached", async () => {
    const failover = await startFailover(
      [
        { name: "a", script: "away" },
        { name: "b", priority: 1, script: "away" },
      ],
      {
        local: [refunded],
      },
    );
    const response = await failover.chat();
    expect([response.status, response.headers.get("x-ratelimit-remaining")]).toEqual([503, "10"]);
  });
});

describe("a client that leaves", () => {
  const waiting: readonly (readonly [string, Behavior])[] = [
    [
      "while the body of a 429 arrives",
      (_, response) => void response.writeHead(429, { "content-type": "application/json" }).write("{"),
    ],
    ["while a stream is held before its first event", opened(": wait\n\n", "open")],
    ["before the response of a provider", silent],
  ];

  test.each(waiting)("%s moves to no other provider", async (_, first) => {
    const failover = await startFailover(
      [
        { name: "a", script: [first] },
        { name: "b", priority: 1, script: [ok("second")] },
      ],
      { failover: "{ firstByteTimeout: 1m, streamIdleTimeout: 1m }" },
    );
    const abort = new AbortController();
    const response = fetch(`${failover.gateway.url()}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ model: "m", messages }),
      signal: abort.signal,
    }).catch(() => undefined);
    await waitFor(() => expect(failover.providers[0]?.received).toHaveLength(1));
    const ended = failover.gateway.nextRecord();
    abort.abort();
    await response;
    expect(await advanceUntil(failover, ended)).toMatchObject({ reason: "ClientDisconnect", attempts: 1 });
    failover.gateway.clock.advance(120_000);
    failover.providers[0]?.behave(status(503));
    expect(await contentOf(await failover.chat({ headers: { "x-later": "yes" } }))).toBe("second");
    expect(failover.providers[1]?.received.map(({ headers }) => headers["x-later"])).toEqual(["yes"]);
  });

  test("while the next provider works is charged once", async () => {
    const failover = await startFailover([
      { name: "a", script: [status(429)] },
      { name: "b", priority: 1, script: [silent] },
    ]);
    const abort = new AbortController();
    const response = fetch(`${failover.gateway.url()}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ model: "m", messages }),
      signal: abort.signal,
    }).catch(() => undefined);
    await waitFor(() => expect(failover.providers[1]?.received).toHaveLength(1));
    const ended = failover.gateway.nextRecord();
    abort.abort();
    await response;
    expect(await advanceUntil(failover, ended)).toMatchObject({
      reason: "ClientDisconnect",
      usage: { estimated: true },
    });
    expect(failover.providers.map(({ received }) => received.length)).toEqual([1, 1]);
  });
});
