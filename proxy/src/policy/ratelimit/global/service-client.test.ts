import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import { silentObserver } from "./observer.ts";
import { ServiceClient } from "./service-client.ts";
import { type CallOutcome, callFailure } from "@gatewayproxy/grpc/client/unary-client";
import type { UnaryClient } from "./grpc/unary-client.ts";
import { away, call, health, notServing, ok, serviceThat, unimplemented } from "./testing/service-that.ts";

describe("an unavailable service", () => {
  test("is reported once when it becomes unavailable and once when it recovers", () => {
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

  test("is called once per half second, and only if there is a call to make", () => {
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

  test("failures that are not in a row open nothing", () => {
    let count = 0;
    const { ask, changes } = serviceThat(() => (++count % 5 === 0 ? ok : away));
    for (let at = 0; at < 40; at++) ask();
    expect(changes).toEqual([]);
  });
});

describe("an unavailable service without requests", () => {
  const opened = (responses: () => CallOutcome, isHealthy: () => CallOutcome) => {
    const service = serviceThat(responses, isHealthy);
    for (let at = 0; at < 5; at++) service.ask();
    return service;
  };

  test("gets a health check, after a pause without a request for the probe", () => {
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
  ])("has recovered after the response %s, before any request", (_what, response) => {
    let isHealthy: CallOutcome = away;
    const { clock, changes, service, ask } = opened(
      () => (isHealthy === away ? away : ok),
      () => isHealthy,
    );
    clock.advance(10_000);
    expect(changes).toEqual(["open"]);
    isHealthy = response;
    clock.advance(500);
    expect(changes).toEqual(["open", "closed"]);
    expect(service.state().breaker).toBe("closed");
    expect(ask()).toBe("responded");
  });

  test("stays unavailable while it reports that it is not serving", () => {
    const { clock, changes, service } = opened(
      () => away,
      () => notServing,
    );
    clock.advance(10_000);
    expect(changes).toEqual(["open"]);
    expect(service.state().lastError).toEqual({
      message: "the service reports that it is not serving",
      atMs: clock.nowMs(),
    });
  });

  test("that reports itself healthy and fails costs one request, until it responds to one", () => {
    let response: CallOutcome = away;
    const { clock, changes, ask, sent } = opened(
      () => response,
      () => ok,
    );
    clock.advance(1_000);
    expect(changes).toEqual(["open", "closed"]);
    ask();
    expect(changes).toEqual(["open", "closed", "open"]);
    clock.advance(60_000);
    expect(changes).toEqual(["open", "closed", "open"]);
    response = ok;
    ask();
    expect(sent).toHaveLength(7);
    expect(changes).toEqual(["open", "closed", "open", "closed"]);
    response = away;
    for (let at = 0; at < 4; at++) ask();
    expect(changes).toHaveLength(4);
  });

  test("is trusted again after a health check reported the failure", () => {
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

  test("is called again at once after a response to another worker, and is unavailable after the first failure", () => {
    let outcome: CallOutcome = away;
    const { ask, changes, service, timesBack } = serviceThat(() => outcome);
    for (let at = 0; at < 5; at++) ask();
    service.succeededInOtherWorker();
    expect(changes).toEqual(["open", "closed"]);
    expect(ask()).toBe("failed");
    expect(changes).toEqual(["open", "closed", "open"]);
    expect(timesBack()).toBe(0);

    outcome = ok;
    service.succeededInOtherWorker();
    expect(ask()).toBe("responded");
    expect(timesBack()).toBe(1);
    ask();
    service.succeededInOtherWorker();
    expect(changes).toEqual(["open", "closed", "open", "closed"]);
    expect(timesBack()).toBe(1);
  });

  test("reports its recovery to other workers when it responds, not when it is healthy", () => {
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

  test("is not called after the client is closed", () => {
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

describe("a service that responds after 120 ms, with a timeout of 100", () => {
  function slowService() {
    const clock = new FakeClock();
    let isSlow = true;
    let arrived = 0;
    const client: UnaryClient = {
      update: () => undefined,
      close: () => undefined,
      call(path, _message, timeoutMs, done) {
        const responseMs = isSlow ? 120 : 1;
        const isInTime = responseMs <= timeoutMs;
        clock.setTimer(Math.min(responseMs, timeoutMs), () => {
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
        service.decide("shouldRateLimit", call, 100, () => {
          if (clock.monotonicMs() - askedMs >= 100) waited++;
          service.charge("shouldRateLimit", call);
        });
        clock.advance(10);
      }
      return waited;
    };
    return { clock, service, serve, arrived: () => arrived, recover: () => void (isSlow = false) };
  }

  test("delays few requests, though it accepts their charges", () => {
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

describe("a service that responds after 20 ms, with timeouts of 1 and 100", () => {
  test("is called with the longer timeout, whatever happens to the other calls, also after an outage", () => {
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
      service.decide("shouldRateLimit", call, timeoutMs, ({ kind }) => outcomes.push(kind));
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
    expect(new Set(serve())).toEqual(new Set(["responded"]));
    expect(changes.length).toBeLessThan(10);
    isAway = true;
    expect(new Set(serve())).toEqual(new Set(["failed"]));
    isAway = false;
    // The impatient take each probe.
    for (let at = 0; at < 20; at++) {
      ask(1);
      clock.advance(100);
    }
    expect(new Set(serve())).toEqual(new Set(["responded"]));
  });
});

describe("a service with malformed responses", () => {
  test("is reported once until it responds as expected", () => {
    let outcome: CallOutcome = callFailure("rejected", "gRPC status 3");
    const { ask, changes } = serviceThat(() => outcome);
    for (let at = 0; at < 20; at++) ask();
    expect(changes).toEqual(["gRPC status 3"]);
    outcome = ok;
    ask();
    outcome = { kind: "responded", message: Buffer.from([255]) };
    ask();
    expect(changes.at(-1)).toContain("cannot be read");
  });
});

describe("a service that rejects single calls", () => {
  test.each(["rejected", "exhausted"] as const)("is still called for others, after one is %s", (cause) => {
    let outcome: CallOutcome = callFailure(cause, "too large");
    const { ask, service } = serviceThat(() => outcome);
    for (let at = 0; at < 45; at++) expect(ask()).toBe("failed");
    outcome = ok;
    expect(ask()).toBe("responded");
    expect(service.state()).toMatchObject({ breaker: "closed", failuresInARow: 0 });
  });
});

describe("a service that has no room for any request", () => {
  const full = callFailure("exhausted", "gRPC status 8");

  test("is not called any more after a second, until a probe succeeds", () => {
    let outcome: CallOutcome = full;
    const { ask, sent, clock, changes } = serviceThat(() => outcome);
    for (let second = 0; second < 10; second++) {
      for (let at = 0; at < 50; at++) ask();
      clock.advance(1_000);
    }
    // 50 in the first second, as many as open the breaker in the next, and then a probe each.
    expect(sent).toHaveLength(50 + 5 + 8);
    expect(changes.filter((change) => change === "open")).toHaveLength(1);
    outcome = ok;
    ask();
    expect(ask()).toBe("responded");
    expect(changes.at(-1)).toBe("closed");
  });

  test("is still called if a single other response comes between", () => {
    let count = 0;
    const { ask, clock, service } = serviceThat(() => (++count % 20 === 0 ? ok : full));
    for (let at = 0; at < 400; at++) {
      ask();
      clock.advance(100);
    }
    expect([count, service.state().breaker]).toEqual([400, "closed"]);
  });

  test("is still called for requests if only charges have no room", () => {
    const { ask, clock, service, sent } = serviceThat(() =>
      sent.at(-1)?.path.endsWith("Report") === true ? full : ok,
    );
    for (let at = 0; at < 100; at++) service.charge("report", call);
    clock.advance(60_000);
    expect([ask(), service.state().breaker]).toEqual(["responded", "closed"]);
  });
});
