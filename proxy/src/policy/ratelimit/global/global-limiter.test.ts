import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import type { RequestView } from "../../../cel/request-view.ts";
import type { GlobalLimit } from "../../../ir/global-limit.ts";
import { CounterTable, createCounters } from "../counter-table.ts";
import { GlobalLimiter, type GlobalReservation } from "./global-limiter.ts";
import { callFailure } from "@gatewayproxy/grpc/client/unary-client";
import type { UnaryClient } from "./grpc/unary-client.ts";

const noBackends = () => undefined;

const limit: GlobalLimit = {
  id: "default/chat HTTPRoute/default/chat",
  policy: "default/chat",
  target: "HTTPRoute/default/chat",
  mode: "Enforce",
  service: "away",
  domain: "chat",
  timeoutMs: 100,
  failureMode: "Local",
  envoyRatelimitedHeader: "FromService",
  hitsMode: "Descriptor",
  descriptors: [{ index: 0, counts: "tokens", entries: [{ key: "everyone", expression: '"all"' }] }],
  fallback: [],
};

const request: RequestView = {
  method: "GET",
  path: "/",
  authority: "example.com",
  scheme: "http",
  rawHeaders: [],
  sourceAddress: "192.0.2.1",
  route: "default/chat",
  gateway: "default/web",
};

/** A limiter whose service is away, and what an operator sees of it. */
function limiterWithout() {
  const clock = new FakeClock();
  let opened = 0;
  const seen = { openBreakers: 0, buffered: 0, dropped: [] as string[], retired: 0 };
  const openClient = (): UnaryClient => {
    opened++;
    return {
      update: () => undefined,
      close: () => undefined,
      call: (_path, _message, _timeoutMs, done) => done(callFailure("unavailable", "away")),
    };
  };
  const limiter = new GlobalLimiter({
    clock,
    openClient,
    counters: new CounterTable(createCounters(64, 2), 1),
    observer: {
      callEnded: () => undefined,
      misbehaved: () => undefined,
      breakerChanged: (_service, isOpen) => {
        seen.openBreakers += isOpen ? 1 : -1;
      },
      chargesBuffered: (_service, count) => {
        seen.buffered = count;
      },
      chargeDropped: (_service, reason) => void seen.dropped.push(reason),
      retired: () => {
        seen.retired++;
      },
    },
  });
  /** Decides a request without a response to it. */
  const admit = (): GlobalReservation => {
    let pass: GlobalReservation | undefined;
    limiter.compile([limit])?.decide(request, (result) => {
      if (result.kind === "allowed") pass = result.reservation;
    });
    if (pass === undefined) throw new Error("the request does not pass");
    return pass;
  };
  const serve = (): void => admit().charge({ total: 7, estimated: false }, clock.monotonicMs());
  return { clock, limiter, seen, admit, serve, opened: () => opened };
}

describe("a service that no limit names any more", () => {
  test("is reported as retired after a minute, and its waiting charges as dropped", () => {
    const { clock, limiter, seen, serve } = limiterWithout();
    limiter.prepare([limit], noBackends);
    for (let at = 0; at < 8; at++) serve();
    expect(seen).toEqual({ openBreakers: 1, buffered: 8, dropped: [], retired: 0 });
    limiter.prepare([], noBackends);
    clock.advance(59_999);
    expect(seen.retired).toBe(0);
    clock.advance(1);
    expect(seen.retired).toBe(1);
    expect(seen.dropped).toEqual(new Array<string>(8).fill("retired"));
  });

  test("opens no breaker and keeps no charge of a request that ends after it was retired", () => {
    const { clock, limiter, seen, admit } = limiterWithout();
    limiter.prepare([limit], noBackends);
    const pass = admit();
    limiter.prepare([], noBackends);
    clock.advance(60_000);
    for (let at = 0; at < 8; at++) pass.charge({ total: 7, estimated: false }, clock.monotonicMs());
    expect(seen).toEqual({ openBreakers: 0, buffered: 0, dropped: new Array<string>(8).fill("retired"), retired: 1 });
  });

  test("that is named again within a minute keeps its charges, its breaker and its connection", () => {
    const { clock, limiter, seen, serve, opened } = limiterWithout();
    limiter.prepare([limit], noBackends);
    for (let at = 0; at < 8; at++) serve();
    limiter.prepare([], noBackends);
    clock.advance(30_000);
    limiter.prepare([limit], noBackends);
    clock.advance(60_000);
    expect(opened()).toBe(1);
    expect(limiter.state()).toMatchObject([{ service: "away", breaker: "open", chargesBuffered: 8 }]);
    expect(seen).toMatchObject({ openBreakers: 1, dropped: [], retired: 0 });
  });
});
