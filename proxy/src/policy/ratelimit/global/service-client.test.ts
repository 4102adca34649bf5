import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import type { RateLimitCall } from "./messages.ts";
import { silentObserver } from "./observer.ts";
import { ServiceClient } from "./service-client.ts";
import { type CallOutcome, callFailure, type UnaryClient } from "./grpc/unary-client.ts";

const ok: CallOutcome = { kind: "answered", message: Buffer.from([8, 1]) };
const away = callFailure("unavailable", "away");
const notServing: CallOutcome = { kind: "answered", message: Buffer.from([8, 2]) };
/** Of a server without such a method. */
const unimplemented = callFailure("rejected", "gRPC status 12");
const health = "/grpc.health.v1.Health/Check";

const call: RateLimitCall = { domain: "d", descriptors: [{ entries: [{ key: "k", value: "v" }] }] };

/**
 * A service of which the test says what comes of each call, at once or when `hold` lets the answer go; `sent` is without
 * questions for its health.
 */
function serviceThat(
  answers: () => CallOutcome,
  isHealthy: () => CallOutcome = () => away,
  hold: (answer: () => void) => void = (answer) => answer(),
) {
  const clock = new FakeClock();
  const sent: { readonly path: string; readonly timeoutMs: number }[] = [];
  const dropped: string[] = [];
  const changes: string[] = [];
  let healthCalls = 0;
  const client: UnaryClient = {
    update: () => undefined,
    close: () => undefined,
    call(path, _message, timeoutMs, done) {
      if (path === health) {
        healthCalls++;
        done(isHealthy());
        return;
      }
      sent.push({ path, timeoutMs });
      hold(() => done(answers()));
    },
  };
  const observer = {
    ...silentObserver,
    chargeDropped: (_service: string, reason: string) => void dropped.push(reason),
    breakerChanged: (_service: string, isOpen: boolean) => void changes.push(isOpen ? "open" : "closed"),
    misbehaved: (_service: string, message: string) => void changes.push(message),
  };
  let timesBack = 0;
  const onBack = (): void => {
    timesBack++;
  };
  const service = new ServiceClient({ key: "service", client, clock, observer, onBack });
  const ask = (): string => {
    let outcome = "none";
    service.ask("shouldRateLimit", call, 100, (answer) => {
      outcome = answer.kind;
    });
    return outcome;
  };
  return { clock, sent, dropped, changes, service, ask, healthCalls: () => healthCalls, timesBack: () => timesBack };
}

describe("a service that is away", () => {
  test("is told once when it goes and once when it comes back", () => {
    let outcome: CallOutcome = away;
    const { ask, changes, clock } = serviceThat(() => outcome);
    for (let at = 0; at < 50; at++) ask();
    clock.advance(10_000);
    for (let at = 0; at < 50; at++) ask();
    expect(changes).toEqual(["open"]);
    outcome = ok;
    clock.advance(500);
    ask();
    expect(changes).toEqual(["open", "closed"]);
  });

  test("is asked once per half second, and only if there is anything to ask", () => {
    const { ask, sent, clock } = serviceThat(() => away);
    for (let at = 0; at < 10; at++) ask();
    expect(sent).toHaveLength(5);
    clock.advance(60_000);
    expect(sent).toHaveLength(5);
    for (let at = 0; at < 10; at++) ask();
    expect(sent).toHaveLength(6);
    clock.advance(499);
    ask();
    expect(sent).toHaveLength(6);
    clock.advance(1);
    ask();
    expect(sent).toHaveLength(7);
  });

  test("failures that do not follow each other open nothing", () => {
    let count = 0;
    const { ask, changes } = serviceThat(() => (++count % 5 === 0 ? ok : away));
    for (let at = 0; at < 40; at++) ask();
    expect(changes).toEqual([]);
  });
});

describe("a service that is away while nobody asks for anything", () => {
  const opened = (answers: () => CallOutcome, isHealthy: () => CallOutcome) => {
    const service = serviceThat(answers, isHealthy);
    for (let at = 0; at < 5; at++) service.ask();
    return service;
  };

  test("is asked for its health, once a request could have been the probe and none came", () => {
    const { clock, healthCalls, ask, sent } = opened(
      () => away,
      () => away,
    );
    clock.advance(999);
    expect(healthCalls()).toBe(0);
    clock.advance(1);
    expect(healthCalls()).toBe(1);
    clock.advance(5_000);
    expect(healthCalls()).toBe(11);
    expect(sent).toHaveLength(5);
    // Where there is something to ask, that is the probe.
    ask();
    expect(sent).toHaveLength(6);
    expect(healthCalls()).toBe(11);
  });

  test.each([
    ["SERVING", ok],
    ["that it knows no such method", unimplemented],
  ])("is back when it answers %s, before any request comes", (_what, answer) => {
    let isHealthy: CallOutcome = away;
    const { clock, changes, service, ask } = opened(
      () => (isHealthy === away ? away : ok),
      () => isHealthy,
    );
    clock.advance(10_000);
    expect(changes).toEqual(["open"]);
    isHealthy = answer;
    clock.advance(500);
    expect(changes).toEqual(["open", "closed"]);
    expect(service.state().breaker).toBe("closed");
    expect(ask()).toBe("answered");
  });

  test("stays away while it says that it is not serving", () => {
    const { clock, changes, service } = opened(
      () => away,
      () => notServing,
    );
    clock.advance(10_000);
    expect(changes).toEqual(["open"]);
    expect(service.state().lastError).toEqual({
      message: "the service says that it is not serving",
      atMs: clock.nowMs(),
    });
  });

  test("that is well and fails all the same costs one request, until it has answered one", () => {
    let answer: CallOutcome = away;
    const { clock, changes, ask, sent } = opened(
      () => answer,
      () => ok,
    );
    clock.advance(1_000);
    expect(changes).toEqual(["open", "closed"]);
    ask();
    expect(changes).toEqual(["open", "closed", "open"]);
    clock.advance(60_000);
    expect(changes).toEqual(["open", "closed", "open"]);
    answer = ok;
    ask();
    expect(sent).toHaveLength(7);
    expect(changes).toEqual(["open", "closed", "open", "closed"]);
    answer = away;
    for (let at = 0; at < 4; at++) ask();
    expect(changes).toHaveLength(4);
  });

  test("is believed again when its health has told of the fault", () => {
    let state: CallOutcome = ok;
    const { clock, changes, ask } = opened(
      () => away,
      () => state,
    );
    clock.advance(1_000);
    ask();
    state = notServing;
    clock.advance(5_000);
    expect(changes.at(-1)).toBe("open");
    state = ok;
    clock.advance(500);
    expect(changes.at(-1)).toBe("closed");
  });

  test("is asked again at once when it has answered another worker, and is away with the first failure", () => {
    let outcome: CallOutcome = away;
    const { ask, changes, service, timesBack } = serviceThat(() => outcome);
    for (let at = 0; at < 5; at++) ask();
    service.answeredElsewhere();
    expect(changes).toEqual(["open", "closed"]);
    expect(ask()).toBe("failed");
    expect(changes).toEqual(["open", "closed", "open"]);
    expect(timesBack()).toBe(0);

    outcome = ok;
    service.answeredElsewhere();
    expect(ask()).toBe("answered");
    expect(timesBack()).toBe(1);
    ask();
    service.answeredElsewhere();
    expect(changes).toEqual(["open", "closed", "open", "closed"]);
    expect(timesBack()).toBe(1);
  });

  test("tells other workers of its return when it answers, not when it says that it is well", () => {
    let outcome: CallOutcome = away;
    const { ask, changes, clock, timesBack } = serviceThat(
      () => outcome,
      () => ok,
    );
    for (let at = 0; at < 5; at++) ask();
    clock.advance(1_000);
    expect(changes).toEqual(["open", "closed"]);
    expect(timesBack()).toBe(0);
    outcome = ok;
    ask();
    expect(timesBack()).toBe(1);
  });

  test("is asked nothing more when it is closed", () => {
    const { clock, service, healthCalls } = opened(
      () => away,
      () => away,
    );
    service.close();
    clock.advance(60_000);
    expect(healthCalls()).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe("a service that answers after 120 ms, when requests wait 100", () => {
  function slowService() {
    const clock = new FakeClock();
    let isSlow = true;
    let arrived = 0;
    const client: UnaryClient = {
      update: () => undefined,
      close: () => undefined,
      call(path, _message, timeoutMs, done) {
        const answerMs = isSlow ? 120 : 1;
        const isInTime = answerMs <= timeoutMs;
        clock.setTimer(Math.min(answerMs, timeoutMs), () => {
          if (isInTime && path !== health) arrived++;
          done(isInTime ? ok : callFailure("timeout", "late"));
        });
      },
    };
    const service = new ServiceClient({ key: "service", client, clock, observer: silentObserver });
    /** A request each 10 ms for a while, each with a charge. @returns how many waited for their whole timeout */
    const serve = (requests: number): number => {
      let waited = 0;
      for (let at = 0; at < requests; at++) {
        const askedMs = clock.monotonicMs();
        service.ask("shouldRateLimit", call, 100, () => {
          if (clock.monotonicMs() - askedMs >= 100) waited++;
          service.charge("shouldRateLimit", call);
        });
        clock.advance(10);
      }
      return waited;
    };
    return { clock, service, serve, arrived: () => arrived, recover: () => void (isSlow = false) };
  }

  test("has few requests wait for it, though it takes their charges", () => {
    const { serve } = slowService();
    expect(serve(3_000)).toBeLessThan(20);
  });

  test("gets every charge, however long it stays slow", () => {
    const { clock, service, serve, arrived } = slowService();
    serve(3_000);
    expect(service.state().breaker).toBe("open");
    clock.advance(10_000);
    expect([arrived(), service.state().chargesBuffered]).toEqual([3_000, 0]);
  });

  test("decides again when it is fast again", () => {
    const { service, serve, recover } = slowService();
    serve(100);
    expect(service.state().breaker).toBe("open");
    recover();
    serve(100);
    expect(service.state().breaker).toBe("closed");
  });
});

describe("a service that answers after 20 ms, for limits that wait 1 and 100", () => {
  test("is asked by the patient, whatever the impatient do, also when it has been away", () => {
    const clock = new FakeClock();
    let isAway = false;
    const changes: string[] = [];
    const client: UnaryClient = {
      update: () => undefined,
      close: () => undefined,
      call(path, _message, timeoutMs, done) {
        if (isAway) done(away);
        else if (path === health) done(ok);
        else clock.setTimer(Math.min(20, timeoutMs), () => done(timeoutMs > 20 ? ok : callFailure("timeout", "late")));
      },
    };
    const observer = {
      ...silentObserver,
      breakerChanged: (_service: string, isOpen: boolean) => void changes.push(isOpen ? "open" : "closed"),
    };
    const service = new ServiceClient({ key: "service", client, clock, observer });
    const ask = (timeoutMs: number): string[] => {
      const outcomes: string[] = [];
      service.ask("shouldRateLimit", call, timeoutMs, ({ kind }) => outcomes.push(kind));
      return outcomes;
    };
    const serve = (): string[] => {
      const patient: string[][] = [];
      for (let at = 0; at < 300; at++) {
        ask(1);
        if (at % 10 === 0) patient.push(ask(100));
        clock.advance(50);
      }
      clock.advance(50);
      return patient.flat();
    };
    expect(new Set(serve())).toEqual(new Set(["answered"]));
    expect(changes.length).toBeLessThan(10);
    isAway = true;
    expect(new Set(serve())).toEqual(new Set(["failed"]));
    isAway = false;
    // The impatient take each probe.
    for (let at = 0; at < 20; at++) {
      ask(1);
      clock.advance(100);
    }
    expect(new Set(serve())).toEqual(new Set(["answered"]));
  });
});

describe("a service that answers nonsense", () => {
  test("is told once until it answers well", () => {
    let outcome: CallOutcome = callFailure("rejected", "gRPC status 3");
    const { ask, changes } = serviceThat(() => outcome);
    for (let at = 0; at < 20; at++) ask();
    expect(changes).toEqual(["gRPC status 3"]);
    outcome = ok;
    ask();
    outcome = { kind: "answered", message: Buffer.from([255]) };
    ask();
    expect(changes.at(-1)).toContain("cannot be read");
  });
});

describe("a service that refuses single calls", () => {
  test.each(["rejected", "exhausted"] as const)("stays asked for others, where one is %s", (cause) => {
    let outcome: CallOutcome = callFailure(cause, "too large");
    const { ask, service } = serviceThat(() => outcome);
    for (let at = 0; at < 45; at++) expect(ask()).toBe("failed");
    outcome = ok;
    expect(ask()).toBe("answered");
    expect(service.state()).toMatchObject({ breaker: "closed", failuresInARow: 0 });
  });
});

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

  test("that waited leave as fast as the service answers, however many more come meanwhile", () => {
    const unanswered: (() => void)[] = [];
    let isAway = true;
    const { service, sent, clock } = serviceThat(
      () => (isAway ? away : ok),
      () => away,
      (answer) => (isAway ? answer() : void unanswered.push(answer)),
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

  test("that fail whatever comes do not keep requests from seeing that the service is well", () => {
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

  test("of more than five minutes ago are dropped: their windows have moved on", () => {
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

  test("beyond ten thousand push the oldest out", () => {
    const { service, dropped } = serviceThat(() => away);
    for (let at = 0; at < 10_003; at++) service.charge("shouldRateLimit", call);
    expect(dropped).toEqual(new Array<string>(3).fill("overflow"));
    expect(service.state().chargesBuffered).toBe(10_000);
  });

  test("beyond 16 MiB push the oldest out, since clients say how long they are", () => {
    const { service, dropped, ask } = serviceThat(() => away);
    for (let at = 0; at < 5; at++) ask();
    const long = { domain: "d", descriptors: [{ entries: [{ key: "k", value: "v".repeat(1024 * 1024) }] }] };
    for (let at = 0; at < 20; at++) service.charge("shouldRateLimit", long);
    expect([service.state().chargesBuffered, dropped]).toEqual([15, new Array<string>(5).fill("overflow")]);
  });

  test("that the service refuses are dropped, those it answers UNKNOWN have been counted", () => {
    const outcomes: CallOutcome[] = [callFailure("rejected", "no"), { kind: "answered", message: Buffer.alloc(0) }];
    const { service, dropped } = serviceThat(() => outcomes.shift() ?? ok);
    service.charge("shouldRateLimit", call);
    service.charge("shouldRateLimit", call);
    expect(dropped).toEqual(["rejected"]);
    expect(service.state().chargesBuffered).toBe(0);
  });

  test("for which the service has no room are sent again a few times, and then dropped", () => {
    let outcome: CallOutcome = callFailure("exhausted", "gRPC status 8");
    const { service, dropped, sent, clock, changes } = serviceThat(() => outcome);
    for (let at = 0; at < 10; at++) service.charge("shouldRateLimit", call);
    expect([service.state().chargesBuffered, dropped]).toEqual([10, []]);
    clock.advance(30 * 500);
    expect([sent.length, service.state().chargesBuffered]).toEqual([30, 0]);
    expect(dropped).toEqual(new Array<string>(10).fill("rejected"));
    expect(changes).toEqual(["gRPC status 8"]);
    service.charge("shouldRateLimit", call);
    outcome = ok;
    clock.advance(500);
    expect([service.state().chargesBuffered, dropped.length]).toEqual([0, 10]);
  });

  test("are waited for at the end, as long as the service is there", async () => {
    const { service } = serviceThat(() => ok);
    await service.idle();
    const absent = serviceThat(() => away);
    for (let at = 0; at < 9; at++) absent.service.charge("shouldRateLimit", call);
    absent.clock.advance(5_000);
    await absent.service.idle();
    expect(absent.service.state().breaker).toBe("open");
  });
});
