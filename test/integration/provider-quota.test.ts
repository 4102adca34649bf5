/**
 * A provider that is out of quota is left alone until its reset, for all clients, as far as one client may decide that.
 */
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test } from "vitest";
import {
  type Behavior,
  contentOf,
  type FailoverGateway,
  ok,
  type Provider,
  type RunningProvider,
  startFailover,
  status,
  stream,
} from "../support/scripted-providers.ts";

const second: Provider = { name: "b", priority: 1, script: [ok("second")] };
const withReset = (seconds: number) => status(429, { "retry-after": String(seconds) });

function countOf({ providers }: FailoverGateway): readonly number[] {
  return providers.map(({ received }) => received.length);
}

/** The first provider, which a test changes. */
function firstOf({ providers }: FailoverGateway): RunningProvider {
  const [first] = providers;
  if (first === undefined) throw new Error("there is no provider");
  return first;
}

async function chatAs(failover: FailoverGateway, client?: string): Promise<string> {
  const response = await failover.chat(client === undefined ? {} : { headers: { "x-forwarded-for": client } });
  return response.ok ? contentOf(response) : String(response.status);
}

const date = (failover: FailoverGateway, seconds: number) =>
  new Date(failover.gateway.clock.nowMs() + seconds * 1_000).toUTCString();

describe("the reset", () => {
  const cases: readonly [string, (failover: FailoverGateway) => Readonly<Record<string, string>>][] = [
    ["retry-after in seconds", () => ({ "retry-after": "20" })],
    ["retry-after as a date", (failover) => ({ "retry-after": date(failover, 20) })],
    ["retry-after-ms", () => ({ "retry-after-ms": "20000" })],
    [
      "the budget of requests of OpenAI",
      () => ({ "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s" }),
    ],
    [
      "the budget of tokens of OpenAI, beside one with a rest",
      () => ({
        ...{ "x-ratelimit-remaining-requests": "9", "x-ratelimit-reset-requests": "3m0s" },
        ...{ "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20.0s" },
      }),
    ],
    [
      "the budget of Anthropic",
      (failover) => ({
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": new Date(failover.gateway.clock.nowMs() + 20_000).toISOString(),
      }),
    ],
    ["the budget of a gateway", () => ({ "x-ratelimit-remaining": "0", "x-ratelimit-reset": "20" })],
  ];

  test.each(cases)("is read from %s", async (_, headersOf) => {
    const failover = await startFailover([{ name: "a", script: [status(429)] }, second]);
    firstOf(failover).behave(status(429, headersOf(failover)), ok("first"));
    expect(await chatAs(failover)).toBe("second");
    failover.gateway.clock.advance(19_000);
    expect(await chatAs(failover)).toBe("second");
    expect(countOf(failover)).toEqual([1, 2]);
    failover.gateway.clock.advance(1_100);
    expect(await chatAs(failover)).toBe("first");
    expect(await failover.charged()).toBe(3 * 42);
  });

  describe("of Gemini, in the body of a 429,", () => {
    const retryInfo = { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "20s" };
    const error = { code: 429, status: "RESOURCE_EXHAUSTED", details: [{ "@type": "other" }, retryInfo] };
    const native = JSON.stringify({ error });
    const pieces =
      (...parts: readonly string[]): Behavior =>
      (_, response) => {
        response.writeHead(429, { "content-type": "application/json; charset=UTF-8" });
        const send = (place: number): void => {
          if (place === parts.length - 1) response.end(parts[place]);
          else response.write(parts[place], () => setImmediate(send, place + 1));
        };
        send(0);
      };

    test.each([
      ["at once", [native]],
      ["behind its head, in pieces", ["", native.slice(0, 40), native.slice(40)]],
      ["as its API for clients of OpenAI sends it", [JSON.stringify([{ error }])]],
    ])("is read %s", async (_, parts) => {
      const failover = await startFailover([{ name: "a", script: [pieces(...parts), ok("first")] }, second]);
      expect(await chatAs(failover)).toBe("second");
      failover.gateway.clock.advance(19_999);
      expect(await chatAs(failover)).toBe("second");
      failover.gateway.clock.advance(1);
      expect(await chatAs(failover)).toBe("first");
      expect(await failover.charged()).toBe(3 * 42);
    });

    test("may be shorter than the time without a reset", async () => {
      const soon = native.replace("20s", "3.5s");
      const failover = await startFailover([{ name: "a", script: [pieces(soon), ok("first")] }, second]);
      expect(await chatAs(failover)).toBe("second");
      failover.gateway.clock.advance(3_500);
      expect(await chatAs(failover)).toBe("first");
    });

    test("is waited for one second", async () => {
      const open: Behavior = (_, response) => {
        response.writeHead(429, { "content-type": "application/json" }).write("{");
      };
      const failover = await startFailover([{ name: "a", script: [open, ok("first")] }, second]);
      const response = chatAs(failover);
      await waitFor(() => expect(countOf(failover)[0]).toBe(1));
      await waitFor(() => {
        failover.gateway.clock.advance(100);
        expect(countOf(failover)[1]).toBe(1);
      });
      expect(await response).toBe("second");
    });

    test.each([
      [
        "cut",
        (request, response) => {
          response.writeHead(429, { "content-type": "application/json", "content-length": "100" }).write("{");
          setImmediate(() => request.socket.destroy());
        },
      ],
      [
        "longer than 64 KiB",
        (_, response) => {
          response
            .writeHead(429, { "content-type": "application/json" })
            .write(JSON.stringify({ error: "x".repeat(70_000) }));
        },
      ],
    ] satisfies readonly (readonly [string, Behavior])[])(
      "does not keep the request if the body is %s",
      async (_, behavior) => {
        const failover = await startFailover([{ name: "a", script: [behavior, ok("first")] }, second]);
        expect(await chatAs(failover)).toBe("second");
        failover.gateway.clock.advance(10_000);
        expect(await chatAs(failover)).toBe("first");
      },
    );

    test("reaches its client as it came if no provider is left, and is known for later requests", async () => {
      const failover = await startFailover([{ name: "a", script: [pieces("", native)] }]);
      const denied = await failover.chat();
      expect([denied.status, await denied.text()]).toEqual([429, native]);
      const next = await failover.chat();
      expect([next.status, next.headers.get("retry-after")]).toEqual([503, "20"]);
    });
  });

  test("of a success with a budget that is used up keeps the next request away", async () => {
    const headers = { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s" };
    const failover = await startFailover([{ name: "a", script: [ok("first", headers), ok("again")] }, second]);
    expect(await chatAs(failover)).toBe("first");
    expect(await chatAs(failover)).toBe("second");
    failover.gateway.clock.advance(20_001);
    expect(await chatAs(failover)).toBe("again");
  });

  test("is ten seconds if the provider does not say it, and twice as long each time", async () => {
    const failover = await startFailover([{ name: "a", script: [status(429)] }, second]);
    for (const seconds of [10, 20, 40]) {
      const before = countOf(failover)[0] ?? 0;
      await chatAs(failover);
      failover.gateway.clock.advance(seconds * 1_000 - 1);
      await chatAs(failover);
      expect(countOf(failover)[0]).toBe(before + 1);
      failover.gateway.clock.advance(1);
    }
  });

  test("is not waited for if the budgets have a rest: the request was too large, not the provider out of quota", async () => {
    const headers = { "x-ratelimit-remaining-requests": "9", "x-ratelimit-remaining-tokens": "50" };
    const failover = await startFailover([{ name: "a", script: [status(429, headers), ok("first")] }, second]);
    expect(await chatAs(failover)).toBe("second");
    expect(await chatAs(failover)).toBe("first");
  });

  test("is a retry-after of the gateway if every provider is out of quota", async () => {
    const failover = await startFailover([
      { name: "a", script: [withReset(30)] },
      { name: "b", priority: 1, script: [withReset(12)] },
    ]);
    expect(await chatAs(failover)).toBe("429");
    const response = await failover.chat();
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "12"]);
    expect(await response.text()).toBe("every provider is out of quota");
    expect(failover.gateway.records[1]).toMatchObject({
      reason: "ProvidersOutOfQuota",
      attempts: 0,
      provider: undefined,
    });
    expect(countOf(failover)).toEqual([1, 1]);
  });

  test("that every provider waits for costs no unit of a limit of requests", async () => {
    const failover = await startFailover([{ name: "a", script: [withReset(30)] }], {
      local: ["{ requests: 10, unit: Hours }"],
    });
    await chatAs(failover);
    const denied = await failover.chat();
    expect(denied.headers.get("x-ratelimit-remaining")).toBe("9");
  });
});

describe("one client", () => {
  const options = { trustedHops: 1 };

  test("cannot keep a provider from others: the first request of another one finds out, and it is available again", async () => {
    const failover = await startFailover([{ name: "a", script: [withReset(50), ok("first")] }, second], options);
    expect(await chatAs(failover, "192.0.2.1")).toBe("second");
    expect(await chatAs(failover, "192.0.2.1")).toBe("second");
    expect(await chatAs(failover, "192.0.2.2")).toBe("first");
    expect(await chatAs(failover, "192.0.2.3")).toBe("first");
    // Its own quota does not park the provider a second time.
    firstOf(failover).behave(withReset(50), ok("first"));
    expect(await chatAs(failover, "192.0.2.1")).toBe("second");
    expect(await chatAs(failover, "192.0.2.3")).toBe("first");
  });

  test("can keep it for a minute from itself, whatever reset the provider says", async () => {
    const failover = await startFailover([{ name: "a", script: [withReset(86_400), ok("first")] }, second], options);
    await chatAs(failover, "192.0.2.1");
    failover.gateway.clock.advance(59_999);
    expect(await chatAs(failover, "192.0.2.1")).toBe("second");
    failover.gateway.clock.advance(1);
    expect(await chatAs(failover, "192.0.2.1")).toBe("first");
  });

  test("with its own key at the provider does not park it, not even for itself", async () => {
    const own: Provider = { name: "a", script: [withReset(50), ok("first")], isPassthrough: true };
    const failover = await startFailover([own, second]);
    expect(await chatAs(failover)).toBe("second");
    expect(await chatAs(failover)).toBe("first");
  });
});

describe("a second client with a 429", () => {
  test("confirms it until the reset, with a probe of another client after ten seconds, then twice as long", async () => {
    const failover = await startFailover([{ name: "a", script: [withReset(300)] }, second], { trustedHops: 1 });
    await chatAs(failover, "192.0.2.1");
    await chatAs(failover, "192.0.2.2");
    expect(countOf(failover)[0]).toBe(2);
    for (const [waitSeconds, probes] of [
      [9, 2],
      [1, 3],
      [19, 3],
      [1, 4],
      [39, 4],
      [1, 5],
    ] as const) {
      failover.gateway.clock.advance(waitSeconds * 1_000);
      await chatAs(failover, `192.0.2.${probes + 10}`);
      expect(countOf(failover)[0]).toBe(probes);
    }
  });
});

describe("a provider that fails", () => {
  test("five times in a row gets no requests for ten seconds, unless no other is left", async () => {
    const failover = await startFailover([{ name: "a", script: [status(500)] }, second]);
    for (let sent = 0; sent < 7; sent++) expect(await chatAs(failover)).toBe("second");
    expect(countOf(failover)).toEqual([5, 7]);
    failover.providers[1]?.behave(status(503));
    expect(await chatAs(failover)).toBe("500");
    expect(countOf(failover)).toEqual([6, 8]);
    firstOf(failover).behave(ok("first"));
    failover.gateway.clock.advance(15_001);
    expect(await chatAs(failover)).toBe("first");
  });

  test("for one client only is tried by another one", async () => {
    const failover = await startFailover([{ name: "a", script: [status(500)] }, second], { trustedHops: 1 });
    for (let sent = 0; sent < 6; sent++) await chatAs(failover, "192.0.2.1");
    expect(countOf(failover)[0]).toBe(5);
    firstOf(failover).behave(ok("first"));
    expect(await chatAs(failover, "192.0.2.2")).toBe("first");
    expect(await chatAs(failover, "192.0.2.1")).toBe("first");
  });

  test("for one client again and again is not taken from others a second time", async () => {
    const failover = await startFailover([{ name: "a", script: [status(500)] }, second], { trustedHops: 1 });
    const held: (() => void)[] = [];
    const fails = async (times: number): Promise<void> => {
      firstOf(failover).behave(status(500));
      for (let sent = 0; sent < times; sent++) expect(await chatAs(failover, "192.0.2.1")).toBe("second");
    };
    await fails(5);
    firstOf(failover).behave(ok("first"));
    expect(await chatAs(failover, "192.0.2.2")).toBe("first");
    await fails(6);
    firstOf(failover).behave((request, response) => held.push(() => ok("first")(request, response)));
    const others = ["192.0.2.2", "192.0.2.3", "192.0.2.4"].map((client) => chatAs(failover, client));
    await expect.poll(() => held.length).toBe(others.length);
    for (const respond of held) respond();
    expect(await Promise.all(others)).toEqual(["first", "first", "first"]);
    // The failures of another client count.
    firstOf(failover).behave(status(500));
    for (let sent = 0; sent < 5; sent++) await chatAs(failover, "192.0.2.5");
    const before = countOf(failover)[0];
    expect(await chatAs(failover, "192.0.2.5")).toBe("second");
    expect(countOf(failover)[0]).toBe(before);
  });
});

describe("providers of one priority", () => {
  test("share requests by weight, exactly, and the others take the share of one that is out of quota", async () => {
    const failover = await startFailover([
      { name: "a", weight: 3, script: [ok("a")] },
      { name: "b", weight: 1, script: [ok("b")] },
      { name: "c", priority: 1, script: [ok("c")] },
    ]);
    for (let sent = 0; sent < 8; sent++) await chatAs(failover);
    expect(countOf(failover)).toEqual([6, 2, 0]);
    firstOf(failover).behave(withReset(20));
    for (let sent = 0; sent < 8; sent++) await chatAs(failover);
    expect(countOf(failover)).toEqual([7, 10, 0]);
  });
});

test("a stream that is out of budget with its head is passed on, and the next one goes elsewhere", async () => {
  const headers = { "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "30s" };
  const failover = await startFailover([
    { name: "a", script: [stream("first", headers)] },
    { name: "b", priority: 1, script: [stream("second")] },
  ]);
  expect(await contentOf(await failover.chat({ stream: true }))).toBe("first");
  expect(await contentOf(await failover.chat({ stream: true }))).toBe("second");
  expect(await failover.charged()).toBe(84);
});
