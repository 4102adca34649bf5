import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { send, sendMany, sendUntilDenied, startLoad, tally } from "./support/client.ts";
import { apply, createNamespace, eventually, kubectl, readyProxies } from "./support/cluster.ts";
import { gateway, llm, policy, route } from "./support/manifests.ts";

const namespace = "e2e-limits";
const chat = { path: "/chat/v1/models" } as const;
const request = {
  path: "/chat/v1/chat/completions",
  body: { model: "mock-1", messages: [{ role: "user", content: "Hi" }] },
};

let created: AsyncDisposable;

beforeAll(async () => {
  created = await createNamespace(namespace);
  await apply(namespace, llm, ...gateway("limits"), route("chat", "limits", "/chat"), route("free", "limits", "/free"));
  await kubectl(["-n", namespace, "wait", "gateway/limits", "--for=condition=Programmed", "--timeout=90s"]);
  await eventually("both proxies serve", async () =>
    (await readyProxies(namespace, "limits")).length === 2 ? true : undefined,
  );
  // A pod is ready before the node sends it a share of the requests.
  await eventually("both get requests", async () => {
    const responses = await sendMany(16, chat);
    const pods = await readyProxies(namespace, "limits");
    const logs = await Promise.all(pods.map(({ metadata }) => kubectl(["-n", namespace, "logs", metadata.name])));
    return responses.every(({ status }) => status === 200) && logs.every((log) => log.includes(chat.path))
      ? true
      : undefined;
  });
});

afterAll(async () => {
  await created[Symbol.asyncDispose]();
});

/** Replaces all policies by these. */
async function limit(...policies: readonly object[]): Promise<void> {
  await kubectl(["-n", namespace, "delete", "proxypolicies", "--all", "--wait"]);
  await eventually("no limit applies", async () => {
    const responses = await sendMany(16, chat);
    return responses.every(({ headers }) => !("x-ratelimit-limit" in headers)) ? true : undefined;
  });
  await apply(namespace, ...policies);
}

async function expectAttached(name: string): Promise<void> {
  const attached = "jsonpath={.status.ancestors[0].conditions[?(@.type=='Attached')].status}=True";
  await kubectl(["-n", namespace, "wait", `proxypolicy/${name}`, `--for=${attached}`, "--timeout=30s"]);
}

describe("local limits over two replicas", () => {
  test("allow on a route the limit of each replica, and no more", async () => {
    await limit(policy("route", { kind: "HTTPRoute", name: "chat" }, { local: [{ requests: 5, unit: "Hours" }] }));
    const responses = await sendUntilDenied(chat);
    expect(tally(responses)).toEqual({ 200: 10, 429: responses.length - 10 });
    expect((await send({ path: "/free/v1/models" })).status).toBe(200);
    await expectAttached("route");
  });

  test("on a Gateway apply to all its routes together", async () => {
    await limit(policy("ceiling", { kind: "Gateway", name: "limits" }, { local: [{ requests: 6, unit: "Hours" }] }));
    const responses = await sendUntilDenied(chat);
    expect(tally(responses)).toEqual({ 200: 12, 429: responses.length - 12 });
    const others = await sendMany(20, { path: "/free/v1/models" });
    expect(tally(others)).toEqual({ 429: 20 });
    await expectAttached("ceiling");
  });

  test("of tokens count streamed responses, which are never ended early", async () => {
    await limit(policy("tokens", { kind: "HTTPRoute", name: "chat" }, { local: [{ tokens: 100, unit: "Hours" }] }));
    const streamed = {
      ...request,
      body: { ...request.body, stream: true },
      headers: { "x-mock-total-tokens": "150" },
    };
    const responses = await sendUntilDenied(streamed, { denials: 20, width: 1 });
    expect(tally(responses)).toEqual({ 200: 2, 429: responses.length - 2 });
    for (const { body } of responses.filter(({ status }) => status === 200)) expect(body).toMatch(/data: \[DONE\]\s*$/);
    const denied = responses.find(({ status }) => status === 429);
    expect(denied?.body).toBe("rate limit exceeded");
    expect(denied?.headers).toMatchObject({ "x-ratelimit-limit": "100", "x-ratelimit-remaining": "0" });
    expect(denied?.headers).not.toHaveProperty("x-envoy-ratelimited");
  });

  test("follow an edit in both replicas, without a failed request", async () => {
    const edited = (requests: number) =>
      policy("edited", { kind: "HTTPRoute", name: "chat" }, { local: [{ requests, unit: "Hours" }] });
    await limit(edited(100_000));
    await eventually("both replicas have the first limit", () => limitEverywhere("100000"));
    await using load = startLoad({ path: "/free/v1/models" });
    await apply(namespace, edited(200_000));
    await eventually("both replicas have the second limit", () => limitEverywhere("200000"), { everyMs: 20 });
    const others = await load.stop();
    expect(tally(others)).toEqual({ 200: others.length });
  });
});

async function limitEverywhere(value: string): Promise<true | undefined> {
  const responses = await sendMany(12, chat);
  return responses.every(({ headers }) => headers["x-ratelimit-limit"] === value) ? true : undefined;
}
