import { describe, expect, test } from "vitest";
import { type CallOutcome, callFailure } from "@gatewayproxy/grpc/client/unary-client";
import { away, call, ok, serviceThat } from "./testing/service-that.ts";

describe("charges", () => {
  test("are sent at once, with more time than a request would wait", () => {
    const { service, sent } = serviceThat(() => ok);
    service.charge("report", call);
    expect(sent).toEqual([{ path: "/kuadrant.service.ratelimit.v1.RateLimitService/Report", timeoutMs: 5_000 }]);
  });

  test("that failed are sent again until they arrive, none twice", () => {
    let outcome: CallOutcome = away;
    const { service, sent, clock } = serviceThat(() => outcome);
    for (let at = 0; at < 20; at++) service.charge("shouldRateLimit", call);
    expect(service.state().chargesBuffered).toBe(20);
    clock.advance(3_000);
    outcome = ok;
    const before = sent.length;
    clock.advance(500);
    expect(sent.length - before).toBe(20);
    expect(service.state()).toMatchObject({ breaker: "closed", chargesBuffered: 0 });
  });

  test("that waited are sent as fast as the service responds, however many more arrive meanwhile", () => {
    const unanswered: (() => void)[] = [];
    let isAway = true;
    const { service, sent, clock } = serviceThat(
      () => (isAway ? away : ok),
      () => away,
      (response) => (isAway ? response() : void unanswered.push(response)),
    );
    for (let at = 0; at < 200; at++) service.charge("shouldRateLimit", call);
    isAway = false;
    const before = sent.length;
    clock.advance(500);
    for (let at = 0; at < 300; at++) {
      service.charge("shouldRateLimit", call);
      unanswered.shift()?.();
    }
    while (unanswered.length > 0) unanswered.shift()?.();
    expect(sent.length - before).toBe(500);
    expect(service.state()).toMatchObject({ breaker: "closed", chargesBuffered: 0 });
  });

  test("that always fail do not keep the breaker open for requests", () => {
    const { service, ask, sent, changes, clock } = serviceThat(() =>
      sent.at(-1)?.path.endsWith("Report") === true ? away : ok,
    );
    service.charge("report", call);
    clock.advance(10_000);
    expect(changes).toEqual(["open"]);
    for (let pause = 0; pause < 2; pause++) {
      clock.advance(500);
      ask();
    }
    expect(changes).toEqual(["open", "closed"]);
  });

  test("older than five minutes are dropped: their windows have ended", () => {
    let outcome: CallOutcome = away;
    const { service, dropped, clock } = serviceThat(() => outcome);
    for (let at = 0; at < 8; at++) service.charge("shouldRateLimit", call);
    clock.advance(200_000);
    service.charge("shouldRateLimit", call);
    clock.advance(101_000);
    outcome = ok;
    clock.advance(500);
    expect(dropped).toEqual(new Array<string>(8).fill("expired"));
    expect(service.state()).toMatchObject({ breaker: "closed", chargesBuffered: 0 });
  });

  test("beyond ten thousand replace the oldest", () => {
    const { service, dropped } = serviceThat(() => away);
    for (let at = 0; at < 10_003; at++) service.charge("shouldRateLimit", call);
    expect(dropped).toEqual(new Array<string>(3).fill("overflow"));
    expect(service.state().chargesBuffered).toBe(10_000);
  });

  test("beyond 16 MiB replace the oldest, since clients choose their length", () => {
    const { service, dropped, ask } = serviceThat(() => away);
    for (let at = 0; at < 5; at++) ask();
    const long = { domain: "d", descriptors: [{ entries: [{ key: "k", value: "v".repeat(1024 * 1024) }] }] };
    for (let at = 0; at < 20; at++) service.charge("shouldRateLimit", long);
    expect([service.state().chargesBuffered, dropped]).toEqual([15, new Array<string>(5).fill("overflow")]);
  });

  test("that the service rejects are dropped; those with code UNKNOWN have been counted", () => {
    const outcomes: CallOutcome[] = [callFailure("rejected", "no"), { kind: "responded", message: Buffer.alloc(0) }];
    const { service, dropped } = serviceThat(() => outcomes.shift() ?? ok);
    service.charge("shouldRateLimit", call);
    service.charge("shouldRateLimit", call);
    expect(dropped).toEqual(["rejected"]);
    expect(service.state().chargesBuffered).toBe(0);
  });

  test.each([
    { cause: "exhausted", reason: "rejected" },
    { cause: "failed", reason: "failed" },
  ] as const)(
    "to which the service responds with $cause are sent five times, with growing pauses, and then dropped",
    (each) => {
      let outcome: CallOutcome = callFailure(each.cause, "no");
      const isCharge = (): boolean => sent.at(-1)?.path.endsWith("Report") === true;
      const { service, dropped, sent, clock, ask } = serviceThat(() => (isCharge() ? outcome : ok));
      const charges = (): number => sent.filter(({ path }) => path.endsWith("Report")).length;
      /** The half seconds at which a charge was sent, while requests succeed all the time. */
      const sentIn = (halves: number): readonly number[] =>
        Array.from({ length: halves }, (_, at) => {
          const before = charges();
          clock.advance(500);
          ask();
          return charges() > before ? at + 1 : 0;
        }).filter((at) => at > 0);
      service.charge("report", call);
      expect([charges(), sentIn(40), dropped]).toEqual([1, [1, 3, 7, 15], [each.reason]]);

      for (let at = 0; at < 10; at++) service.charge("report", call);
      sentIn(200);
      expect([charges(), dropped.length]).toEqual([55, 11]);
      expect(service.state()).toMatchObject({ breaker: "closed", chargesBuffered: 0 });
      service.charge("report", call);
      outcome = ok;
      clock.advance(500);
      expect([service.state().chargesBuffered, dropped.length]).toEqual([0, 11]);
    },
  );

  test("that always fail are not sent for five minutes without requests either", () => {
    const { service, dropped, clock } = serviceThat(() => callFailure("failed", "gRPC status 13"));
    service.charge("report", call);
    clock.advance(30_000);
    expect([dropped, service.state().chargesBuffered]).toEqual([["failed"], 0]);
  });

  test("that refund are sent once, since the service may have counted one that failed", () => {
    const outcomes: CallOutcome[] = [callFailure("timeout", "late"), callFailure("failed", "no"), away];
    const { service, sent, dropped, clock } = serviceThat(() => outcomes.shift() ?? ok);
    for (let times = 0; times < 4; times++) service.refund(call);
    clock.advance(60_000);
    expect(sent.filter(({ path }) => path.includes("ShouldRateLimit"))).toHaveLength(4);
    expect([dropped, service.state().chargesBuffered]).toEqual([["uncertain", "uncertain", "uncertain"], 0]);
  });

  test("that refund wait while the service is away", () => {
    let outcome: CallOutcome = away;
    const { service, dropped, ask, clock } = serviceThat(() => outcome);
    for (let at = 0; at < 5; at++) ask();
    service.refund(call);
    expect([dropped, service.state().chargesBuffered]).toEqual([[], 1]);
    outcome = ok;
    clock.advance(500);
    expect([dropped, service.state().chargesBuffered]).toEqual([[], 0]);
  });

  test("are awaited at the end, while the service is available", async () => {
    const { service } = serviceThat(() => ok);
    await service.idle();
    const absent = serviceThat(() => away);
    for (let at = 0; at < 9; at++) absent.service.charge("shouldRateLimit", call);
    absent.clock.advance(5_000);
    await absent.service.idle();
    expect(absent.service.state().breaker).toBe("open");
  });
});
