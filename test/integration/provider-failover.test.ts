/**
 * A Backend with several providers: each way in which a provider can fail, what its client gets instead, and that
 * limits count the provider that has responded, once.
 */
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test } from "vitest";
import { eventStreamMessage } from "../../proxy/src/llm/testing/event-stream-message.ts";
import {
  type Behavior,
  contentOf,
  cutAfterEvent,
  cutJson,
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
import { freePort } from "../support/free-port.ts";
import { gatewayManifest, manifests, routeManifest } from "../support/gateway.ts";

const key = (name: string): string => `Backend/default/${name}`;
const timeouts = "{ firstByteTimeout: 10s, streamIdleTimeout: 5s }";

/** Advances the clock until the response is complete. */
async function awaiting<T>({ gateway }: FailoverGateway, response: Promise<T>): Promise<T> {
  let isThere = false;
  void response.finally(() => (isThere = true)).catch(() => undefined);
  await waitFor(
    () => {
      gateway.clock.advance(500);
      expect(isThere).toBe(true);
    },
    { timeout: 10_000, interval: 5 },
  );
  return response;
}

const openAiError = { message: "The server had an error", type: "server_error", param: null, code: null };
const errorOf = (error: object): string => `data: ${JSON.stringify({ error })}\n\n`;
const overloaded =
  'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n';

describe("a request moves to the next provider", () => {
  const away = "away" as const;
  const cases: readonly [string, cause: string, isStream: boolean, first: readonly Behavior[] | "away"][] = [
    ["after a 429", "status 429", false, [status(429)]],
    ["after a 429 with its reset", "status 429", false, [status(429, { "retry-after": "7" })]],
    ["after a 429 to a stream", "status 429", true, [status(429)]],
    ["after a 500", "status 500", false, [status(500)]],
    ["after a 503 to a stream", "status 503", true, [status(503)]],
    ["after a 529", "status 529", false, [status(529)]],
    ["without a connection", "connect", false, away],
    ["without a connection, streamed", "connect", true, away],
    ["after a reset connection", "reset", false, [reset]],
    ["after a silence", "timeout", false, [silent]],
    ["after a silence of a stream", "timeout", true, [silent]],
    ["after a head without a body", "reset", false, [cutJson]],
    ["after a stream that is cut before its first event", "reset", true, [opened("", "cut")]],
    ["after a stream that is cut behind a comment", "reset", true, [opened(": wait\n\n", "cut")]],
    ["after a stream that is cut in its first event", "reset", true, [opened('data: {"x', "cut")]],
    ["after a stream that ends without an event", "reset", true, [opened("", "finished")]],
    ["after a stream that begins with an error of OpenAI", "error event", true, [opened(errorOf(openAiError), "open")]],
    ["after a stream that begins with an error of Anthropic", "error event", true, [opened(overloaded, "finished")]],
    [
      "after a stream that is only an error",
      "error event",
      true,
      [opened(errorOf(openAiError).trimEnd() + "\n", "finished")],
    ],
    ["after a stream that is silent before its first event", "timeout", true, [opened("", "open")]],
    ["after a stream that is silent behind a comment", "timeout", true, [opened(": wait\n\n", "open")]],
  ];

  test.each(cases)("%s", async (_, cause, isStream, first) => {
    const second = isStream ? stream("second") : ok("second");
    const failover = await startFailover(
      [
        { name: "a", script: first },
        { name: "b", priority: 1, script: [second] },
      ],
      {
        failover: timeouts,
      },
    );
    const response = await awaiting(failover, failover.chat({ stream: isStream }));
    expect([response.status, await contentOf(response)]).toEqual([200, "second"]);
    const [a, b] = failover.providers;
    expect(a?.received.length).toBe(first === "away" ? 0 : 1);
    expect(b?.received.length).toBe(1);
    expect(await failover.charged()).toBe(usage.total_tokens);
    expect(failover.gateway.records[0]).toMatchObject({
      status: 200,
      reason: undefined,
      backend: key("chat"),
      provider: key("b"),
      failovers: [{ provider: key("a"), cause }],
      attempts: 2,
      usage: { total: usage.total_tokens },
    });
  });

  test("after a message of Amazon that is an exception", async () => {
    const type = "application/vnd.amazon.eventstream";
    const headers = { ":message-type": "exception", ":exception-type": "throttlingException" };
    const throttled: Behavior = (_, response) =>
      void response.writeHead(200, { "content-type": type }).end(eventStreamMessage(headers, "{}"));
    const failover = await startFailover([
      { name: "a", script: [throttled] },
      { name: "b", priority: 1, script: [ok("second")] },
    ]);
    expect(await contentOf(await failover.chat())).toBe("second");
    expect(await contentOf(await failover.chat())).toBe("second");
    expect(failover.providers[0]?.received).toHaveLength(1);
  });

  test("asks for a response without a coding, since its beginning is read", async () => {
    const failover = await startFailover([
      { name: "a", script: [ok("first")] },
      { name: "b", priority: 1, script: [ok("second")] },
    ]);
    await failover.chat({ headers: { "accept-encoding": "gzip, br" } });
    expect(failover.providers[0]?.received[0]?.headers["accept-encoding"]).toBe("identity");
  });

  test("also over several, in the order of their priorities", async () => {
    const failover = await startFailover([
      { name: "last", priority: 3, script: [ok("last")] },
      { name: "second", priority: 1, script: [status(503)] },
      { name: "first", script: [status(429)] },
      { name: "third", priority: 2, script: "away" },
    ]);
    const response = await failover.chat();
    expect([response.status, await contentOf(response)]).toEqual([200, "last"]);
    expect(failover.gateway.records[0]?.failovers).toEqual([
      { provider: key("first"), cause: "status 429" },
      { provider: key("second"), cause: "status 503" },
      { provider: key("third"), cause: "connect" },
    ]);
    expect(await failover.charged()).toBe(usage.total_tokens);
  });
});

describe("a request stays", () => {
  test.each([400, 401, 403, 404, 413, 422])("with a %i, which another provider would give, too", async (code) => {
    const failover = await startFailover([
      { name: "a", script: [status(code)] },
      { name: "b", priority: 1, script: [ok("second")] },
    ]);
    expect((await failover.chat()).status).toBe(code);
    expect(failover.providers[1]?.received).toHaveLength(0);
    expect(await failover.charged()).toBe(0);
  });

  test("with a stream that is cut after its first event, which its client has seen", async () => {
    const failover = await startFailover([
      { name: "a", script: [cutAfterEvent] },
      { name: "b", priority: 1, script: [stream("second")] },
    ]);
    const response = await failover.chat({ stream: true });
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
    expect(failover.providers[1]?.received).toHaveLength(0);
    expect(failover.gateway.records[0]).toMatchObject({ provider: key("a"), reason: "UpstreamReset", failovers: [] });
  });

  test("with a stream that begins with an error for which its client is to blame", async () => {
    const invalid = errorOf({ type: "invalid_request_error", message: "no such tool" });
    const failover = await startFailover([
      { name: "a", script: [opened(invalid, "finished")] },
      { name: "b", priority: 1, script: [stream("second")] },
    ]);
    expect(await (await failover.chat({ stream: true })).text()).toBe(invalid);
    expect(failover.providers[1]?.received).toHaveLength(0);
  });

  test("with a stream whose second event is an error", async () => {
    const event = 'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n';
    const failover = await startFailover([
      { name: "a", script: [opened(event + overloaded, "finished")] },
      { name: "b", priority: 1, script: [stream("second")] },
    ]);
    expect(await (await failover.chat({ stream: true })).text()).toBe(event + overloaded);
    expect(failover.providers[1]?.received).toHaveLength(0);
  });

  test("with the response of the last provider", async () => {
    const failover = await startFailover([
      { name: "a", script: [status(429, { "retry-after": "3" })] },
      { name: "b", priority: 1, script: [status(500, { "x-of": "b" })] },
    ]);
    const response = await failover.chat();
    expect([response.status, response.headers.get("x-of")]).toEqual([500, "b"]);
    expect(await failover.charged()).toBe(0);
  });

  test("with a provider that is slow, if there is no other one", async () => {
    const late: Behavior = (request, response) => setTimeout(() => ok("late")(request, response), 30);
    const failover = await startFailover(
      [
        { name: "a", script: "away" },
        { name: "b", priority: 1, script: [late] },
      ],
      {
        failover: "{ firstByteTimeout: 1ms }",
      },
    );
    expect(await contentOf(await awaiting(failover, failover.chat()))).toBe("late");
  });

  test("after one attempt without a response that may have been billed, so that a client cannot multiply costs", async () => {
    const failover = await startFailover(
      [
        { name: "a", script: [silent] },
        { name: "b", priority: 1, script: [reset] },
        { name: "c", priority: 2, script: [ok("third")] },
      ],
      { failover: timeouts },
    );
    const response = await awaiting(failover, failover.chat());
    expect(response.status).toBe(502);
    expect(failover.providers[2]?.received).toHaveLength(0);
  });

  test.each([504, 524])("after one %i, whose model may have generated all the time", async (timeout) => {
    const failover = await startFailover([
      { name: "a", script: [status(timeout)] },
      { name: "b", priority: 1, script: [status(timeout)] },
      { name: "c", priority: 2, script: [ok("third")] },
    ]);
    expect((await failover.chat()).status).toBe(timeout);
    expect(failover.providers.map(({ received }) => received.length)).toEqual([1, 1, 0]);
    expect(await failover.charged()).toBeGreaterThan(0);
  });
});

describe("a request that leaves a provider, which may bill it, is charged an estimate", () => {
  const leaves: readonly [string, readonly Behavior[]][] = [
    ["after a silence", [silent]],
    ["after a reset", [reset]],
    ["after a 504", [status(504)]],
  ];

  test.each(leaves.flatMap(([left, first]) => [400, 500].map((code) => [left, code, first] as const)))(
    "%s, if the next one responds with %i",
    async (_, code, first) => {
      const failover = await startFailover(
        [
          { name: "a", script: first },
          { name: "b", priority: 1, script: [status(code)] },
        ],
        { failover: timeouts },
      );
      expect((await awaiting(failover, failover.chat())).status).toBe(code);
      expect(failover.providers.map(({ received }) => received.length)).toEqual([1, 1]);
      expect(await failover.charged()).toBeGreaterThan(0);
    },
  );

  test("once, if it cannot connect to the next one", async () => {
    const failover = await startFailover(
      [
        { name: "a", script: [silent] },
        { name: "b", priority: 1, script: "away" },
      ],
      { failover: timeouts },
    );
    expect((await awaiting(failover, failover.chat())).status).toBe(503);
    const [record] = failover.gateway.records;
    expect(record?.usage?.input).toBe(record?.usage?.total);
    expect(await failover.charged()).toBe(record?.usage?.total);
  });
});

test("providers of another namespace that fail by the thousand make no request go to a provider that is out of quota", async () => {
  const lists = Array.from({ length: 125 }, (_, place) => place);
  const closedPort = await freePort();
  const backend = (name: string, ai: string): string => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: greedy }
spec: { ai: { ${ai} } }
`;
  const failing = (list: number): readonly string[] => Array.from({ length: 16 }, (_, place) => `p${list}-${place}`);
  const routes = [0, 16, 32, 48, 64, 80, 96, 112].map((from) => {
    const rules = lists.slice(from, from + 16).map((list) => {
      const ref = `{ group: gatewayproxy.dev, kind: Backend, name: list${list} }`;
      return `{ matches: [{ path: { value: /${list} } }], backendRefs: [${ref}] }`;
    });
    return routeManifest(`r${from}`, rules).replace("namespace: default", "namespace: greedy");
  });
  const greedy = [
    gatewayManifest(81).replace("namespace: default", "namespace: greedy"),
    ...routes,
    ...lists.flatMap((list) => [
      backend(
        `list${list}`,
        `providers: [${failing(list)
          .map((name) => `{ backendRef: { name: ${name} } }`)
          .join(", ")}]`,
      ),
      ...failing(list).map((name) =>
        backend(name, `provider: { openaiCompatible: {} }, host: 127.0.0.1, port: ${closedPort}`),
      ),
    ]),
  ];
  const out = ["a", "b", "c", "d"].map((name) => ({ name, script: [status(429, { "retry-after": "60" })] }));
  const failover = await startFailover([...out, { name: "last", priority: 1, script: [ok("last")] }], {
    more: manifests(...greedy),
  });
  const received = (): readonly number[] => failover.providers.map((provider) => provider.received.length);
  expect((await failover.chat()).status).toBe(200);
  expect(received()).toEqual([1, 1, 1, 1, 1]);
  for (const list of lists) {
    const body = JSON.stringify({ model: "m", messages: [] });
    const { status } = await fetch(`${failover.gateway.url(81)}/${list}/v1/chat/completions`, { method: "POST", body });
    expect([502, 503]).toContain(status);
  }
  expect((await failover.chat()).status).toBe(200);
  expect(received()).toEqual([1, 1, 1, 1, 2]);
}, 60_000);
