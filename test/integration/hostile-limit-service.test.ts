/** What a rate limit service chooses in its responses: the number of statuses, the length of bodies, and held hits. */
import { silentObserver } from "../../proxy/src/policy/ratelimit/global/observer.ts";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { WireWriter } from "@gatewayproxy/protos/wire-writer";
import { responseFields, statusFields } from "@gatewayproxy/protos/reservation";
import { describe, expect, test } from "vitest";
import type { RequestView } from "../../proxy/src/cel/request-view.ts";
import { DecisionRing } from "../../proxy/src/admin/decision-ring.ts";
import type { GlobalLimit } from "../../proxy/src/ir/global-limit.ts";
import { CounterTable, createCounters } from "../../proxy/src/policy/ratelimit/counter-table.ts";
import type { Denial } from "../../proxy/src/policy/ratelimit/denial.ts";
import { GlobalLimiter } from "../../proxy/src/policy/ratelimit/global/global-limiter.ts";
import type { UnaryClient } from "../../proxy/src/policy/ratelimit/global/grpc/unary-client.ts";
import { recordOf } from "../../proxy/src/telemetry/testing/records.ts";
import { respondWith, startBackend } from "../support/backend.ts";
import { byAddress, globalPolicy, send, serveUnder } from "../support/global-policy.ts";
import { usedMemory } from "../support/memory.ts";
import { respondGrpc, startRawService } from "../support/rate-limit-service.ts";

const noBackends = () => undefined;

/** Of a response, with the given number of equal statuses. */
interface Message {
  readonly code: "OK" | "OVER_LIMIT";
  readonly statuses: number;
  readonly body?: Buffer;
  readonly heldAtMs?: number;
  readonly heldHits?: number;
}

/** The bytes of a RateLimitResponse, whose limits have 10 requests in a minute and 42 s to the reset. */
function messageOf({ code, statuses, body, heldAtMs = 0, heldHits = 0 }: Message): Buffer {
  const number = code === "OK" ? 1 : 2;
  const writer = new WireWriter();
  writer.uint(1, number);
  for (let at = 0; at < statuses; at++) {
    const status = writer.begin(2);
    writer.uint(1, number);
    const limit = writer.begin(2);
    writer.uint(1, 10);
    writer.uint(2, 2);
    writer.end(limit);
    const duration = writer.begin(4);
    writer.uint(1, 42);
    writer.end(duration);
    writer.uint(statusFields.heldHits, heldHits);
    writer.end(status);
  }
  if (body !== undefined) writer.bytes(5, body);
  writer.uint(responseFields.heldAt, heldAtMs);
  return writer.take();
}

describe("statuses beyond the descriptors of the call", () => {
  const count = 50_000;

  async function gatewayWith(code: Message["code"], responses: string) {
    const message = messageOf({ code, statuses: count });
    const { port } = await startRawService((stream) => respondGrpc(stream, message));
    const policy = `${globalPolicy(`address: '127.0.0.1:${port}', ${byAddress}`)}      ${responses}\n`;
    return await serveUnder(await startBackend(respondWith(200, "ok")), policy);
  }

  test("are not in the fields of a response", async () => {
    const { status, headers } = await send(await gatewayWith("OK", "headers: [Ietf]"));
    expect(status).toBe(200);
    expect(headers.get("ratelimit")).toBe('"chat-global-0";r=0;t=42');
  });

  test("are not named by a denial", async () => {
    const { status, body } = await send(await gatewayWith("OVER_LIMIT", "denied: { format: Problem }"));
    expect(status).toBe(429);
    expect((JSON.parse(body) as Record<string, unknown>)["violated-policies"]).toEqual(["chat-global-0"]);
  });
});

const limit: GlobalLimit = {
  id: "default/chat HTTPRoute/default/chat",
  policy: "default/chat",
  target: "HTTPRoute/default/chat",
  mode: "Enforce",
  service: "hostile",
  domain: "chat",
  timeoutMs: 100,
  failureMode: "Local",
  envoyRatelimitedHeader: "FromService",
  hitsMode: "Descriptor",
  descriptors: [
    {
      index: 0,
      counts: "requests",
      entries: [{ key: "user", expression: 'request.headers["x-user"].substring(0, 22)' }],
    },
  ],
  fallback: [],
};

/** A request whose header has a value of its own, and other text behind it. */
function requestOf(user: number, length = 0): RequestView {
  return {
    method: "GET",
    path: "/",
    authority: "example.com",
    scheme: "http",
    rawHeaders: ["x-user", `a-user-with-number-${String(user).padStart(3, "0")},${"x".repeat(length)}`],
    sourceAddress: "192.0.2.1",
    route: "default/chat",
    gateway: "default/web",
  };
}

/** A limiter whose service responds to each call with a message of its own. */
function limiterWith(respond: () => Buffer) {
  const sent: Buffer[] = [];
  const client: UnaryClient = {
    update: () => undefined,
    close: () => undefined,
    call(_path, message, _timeoutMs, done) {
      sent.push(message);
      done({ kind: "responded", message: respond() });
    },
  };
  const clock = new FakeClock();
  const limiter = new GlobalLimiter({
    clock,
    openClient: () => client,
    counters: new CounterTable(createCounters(64, 2), 1),
    observer: silentObserver,
  });
  const deny = (user: number): Denial => {
    let denial: Denial | undefined;
    limiter.compile([limit])?.decide(requestOf(user), (result) => {
      if (result.kind === "denied") denial = result.by;
    });
    if (denial === undefined) throw new Error("the request is not denied");
    return denial;
  };
  return { limiter, sent, deny, clock };
}

const mebibyte = 1024 * 1024;

describe("denials with bodies of nearly 1 MiB", () => {
  const respond = () => messageOf({ code: "OVER_LIMIT", statuses: 1, body: Buffer.alloc(mebibyte - 1_024, "x") });

  test("are cached within 16 MiB", async () => {
    const { limiter, sent, deny } = limiterWith(respond);
    deny(-1);
    const before = await usedMemory();
    for (let user = 0; user < 64; user++) deny(user);
    sent.length = 0;
    expect((await usedMemory()) - before).toBeLessThan(20 * mebibyte);
    // The newest are cached.
    deny(63);
    expect(sent).toEqual([]);
    expect(limiter.state()[0]?.denialsCached).toBeGreaterThan(0);
  });

  test("do not replace those of another namespace", () => {
    const { limiter, sent, deny } = limiterWith(respond);
    const modest = limiter.compile([{ ...limit, service: "modest", policy: "modest/chat" }]);
    const denyModest = (): void => modest?.decide(requestOf(0), () => undefined);
    denyModest();
    for (let user = 0; user < 64; user++) deny(user);
    sent.length = 0;
    denyModest();
    expect(sent).toEqual([]);
  });

  test("are remembered for operators without them", async () => {
    const ring = new DecisionRing(1);
    const before = await usedMemory();
    for (let user = 0; user < 64; user++) {
      const { deny } = limiterWith(respond);
      ring.add({ record: recordOf({}), denial: deny(user), atMs: 0, monotonicMs: 0 });
    }
    expect((await usedMemory()) - before).toBeLessThan(8 * mebibyte);
    expect(ring.find({ id: undefined }).remembered).toBe(64);
  });
});

test("denials of requests with long texts are remembered within 4 MiB of text", () => {
  const ring = new DecisionRing(1);
  const { deny } = limiterWith(() => messageOf({ code: "OVER_LIMIT", statuses: 1 }));
  const path = `/${"x".repeat(32 * 1024)}`;
  for (let user = 0; user < 200; user++) {
    ring.add({ record: recordOf({ path, requestId: `id-${user}` }), denial: deny(user), atMs: 0, monotonicMs: 0 });
  }
  const { decisions, remembered } = ring.find({ id: undefined });
  expect(remembered).toBe(decisions.length);
  expect(remembered * path.length).toBeLessThanOrEqual(4 * mebibyte);
  expect(remembered).toBeGreaterThan(100);
  expect(decisions[0]).toMatchObject({ requestId: "id-199" });
});

test("limits that are learned for parts of headers do not keep the headers", async () => {
  const { limiter } = limiterWith(() => messageOf({ code: "OK", statuses: 1 }));
  const set = limiter.compile([limit]);
  const decide = (user: number): void => set?.decide(requestOf(user, 64 * 1024), () => undefined);
  decide(0);
  const before = await usedMemory();
  for (let user = 1; user <= 300; user++) decide(user);
  expect(limiter.learned(1_000)).toHaveLength(301);
  expect((await usedMemory()) - before).toBeLessThan(4 * mebibyte);
});

describe("limits that services report for a hundred thousand clients of one namespace", () => {
  const entries = [{ key: "user", expression: 'request.headers["x-user"]' }];
  const descriptors: GlobalLimit["descriptors"] = [{ index: 0, counts: "requests", entries }];
  const many = (service: string): GlobalLimit => ({ ...limit, service, policy: `greedy/${service}`, descriptors });
  const greedy = [many("one"), many("two"), many("three"), many("four"), many("five")];
  const modest = { ...limit, service: "modest", policy: "modest/chat" };

  test("take 16 MiB of a worker, and remove none of another namespace", async () => {
    const { limiter, sent } = limiterWith(() => messageOf({ code: "OK", statuses: 1 }));
    const learn = (each: GlobalLimit, user: number): void =>
      limiter.compile([each])?.decide(requestOf(user), () => undefined);
    limiter.prepare([...greedy, modest], noBackends);
    for (let user = 0; user < 100; user++) learn(modest, user);
    const before = await usedMemory();
    for (let user = 0; user < 20_000; user++) for (const each of greedy) learn(each, user);
    sent.length = 0;
    expect((await usedMemory()) - before).toBeLessThan(20 * mebibyte);
    const learned = (service: string) => limiter.state().find((state) => state.service === service)?.limitsLearned ?? 0;
    expect(learned("modest")).toBe(100);
    expect(greedy.reduce((sum, { service }) => sum + learned(service), 0)).toBeGreaterThan(10_000);
  });

  test("are forgotten a minute after no policy names their service", () => {
    const { limiter, clock } = limiterWith(() => messageOf({ code: "OK", statuses: 1 }));
    limiter.prepare([modest], noBackends);
    limiter.compile([modest])?.decide(requestOf(0), () => undefined);
    limiter.prepare([], noBackends);
    clock.advance(60_000);
    limiter.prepare([modest], noBackends);
    expect(limiter.learned(10)).toEqual([]);
  });
});

test("a request holds no more at a service than it has asked for", () => {
  const tokens: GlobalLimit = {
    ...limit,
    descriptors: [{ index: 0, counts: "tokens", reserves: true, entries: [{ key: "everyone", expression: '"all"' }] }],
  };
  const { limiter, sent } = limiterWith(() =>
    messageOf({ code: "OK", statuses: 1, heldAtMs: 1_000, heldHits: 2 ** 40 }),
  );
  const estimate = { total: 50, estimated: true };
  limiter.compile([tokens])?.decide({ ...requestOf(0), llm: { estimate } }, (result) => {
    if (result.kind === "allowed") result.reservation.release(0);
  });
  // A refund of 2^40 would have six bytes.
  expect(sent).toHaveLength(2);
  expect(sent[1]?.toString("latin1")).not.toContain("\x80\x80\x80\x80\x80");
});
