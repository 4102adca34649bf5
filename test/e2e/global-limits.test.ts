import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { failuresOf, send, sendMany, sendUntilDenied, startLoad, tally, type TestRequest } from "./support/client.ts";
import {
  apply,
  createNamespace,
  eventually,
  kubectl,
  list,
  readyProxies,
  release,
  systemNamespace,
} from "./support/cluster.ts";
import { gateway, grantService, llm, policy, route, service } from "./support/manifests.ts";

const namespace = "e2e-global";
const redis = `${release}-redis`;

/** The limits of each user per minute in examples/kind/values.yaml: requests, and tokens. */
const sharedLimit = 6;
const sharedTokens = 1_000;
/** Enough that every thread of both replicas gets some; each has its own breaker for the service. */
const enoughForAllThreads = 40;
/** The limit of each replica while the service is unavailable. */
const fallback = 3;

let created: AsyncDisposable;
let users = 0;

beforeAll(async () => {
  created = await createNamespace(namespace);
  const global = {
    backendRef: service,
    domain: "team",
    // The machine may be busy, and the speed of the service is not the subject.
    timeout: "1s",
    descriptors: [
      { entries: [{ name: "user", expression: 'request.headers["x-user"]' }] },
      { unit: "Tokens", entries: [{ name: "user_tokens", expression: 'request.headers["x-user"]' }] },
    ],
    fallback: [{ requests: fallback, unit: "Hours" }],
  };
  await apply(systemNamespace, grantService(namespace));
  await apply(namespace, llm, ...gateway("global"), route("all", "global"));
  await apply(namespace, policy("shared", { kind: "HTTPRoute", name: "all" }, { global }));
  await kubectl(["-n", namespace, "wait", "gateway/global", "--for=condition=Programmed", "--timeout=90s"]);
  await eventually("both proxies serve", async () =>
    (await readyProxies(namespace, "global")).length === 2 ? true : undefined,
  );
  await untilShared();
});

afterAll(async () => {
  await created[Symbol.asyncDispose]();
  await kubectl(["-n", systemNamespace, "delete", "referencegrant", namespace, "--ignore-not-found"]);
});

/** A user without requests so far. */
function newUser(): TestRequest {
  users += 1;
  return { path: "/v1/models", headers: { "x-user": `${namespace}-${process.pid}-${users}` } };
}

/** Waits until the service decides for all threads of both replicas: every response has its limit. */
async function untilShared(): Promise<void> {
  await eventually("the service decides", async () => {
    const responses = await sendMany(enoughForAllThreads, newUser());
    return responses.every(({ headers }) => String(headers["x-ratelimit-limit"]).startsWith(`${sharedLimit}`))
      ? true
      : undefined;
  });
}

/** Waits for a new minute if little is left of this one: the windows of the service follow the clock. */
async function enoughOfTheMinute(): Promise<void> {
  const left = 60_000 - (Date.now() % 60_000);
  if (left < 15_000) await delay(left + 500);
}

async function expectShared(): Promise<void> {
  await enoughOfTheMinute();
  const responses = await sendUntilDenied(newUser(), { denials: 20 });
  expect(tally(responses)).toEqual({ 200: sharedLimit, 429: responses.length - sharedLimit });
  const denied = responses.find(({ status }) => status === 429);
  expect(denied?.headers).toMatchObject({ "x-envoy-ratelimited": "true" });
}

async function scale(deployment: string, replicas: number): Promise<void> {
  await kubectl(["-n", systemNamespace, "scale", `deployment/${deployment}`, `--replicas=${replicas}`]);
  const component = deployment.replace(`${release}-`, "");
  await eventually(`${deployment} has ${replicas} pods`, async () => {
    const pods = await list("pods", "-n", systemNamespace, "-l", `app.kubernetes.io/component=${component}`);
    const ready = pods.filter(({ status }) =>
      status?.conditions?.some((each) => each.type === "Ready" && each.status === "True"),
    );
    return pods.length === replicas && ready.length === replicas ? true : undefined;
  });
}

describe("a global limit over two replicas of the proxy and two of the service", () => {
  test("allows the shared amount", async () => {
    await expectShared();
  });

  test("of tokens is shared, too, and counts streamed responses", async () => {
    await enoughOfTheMinute();
    const user = newUser().headers;
    const half = { ...user, "x-mock-total-tokens": `${sharedTokens / 2}` };
    const body = { model: "mock-1", stream: true, messages: [{ role: "user", content: "Hi" }] };
    const streamed = { path: "/v1/chat/completions", headers: half, body };
    const responses = [await send(streamed), await send(streamed)];
    for (const { status, body: text } of responses) {
      expect([status, text]).toEqual([200, expect.stringMatching(/\[DONE\]\s*$/)]);
    }
    // The proxies charge a response after its end, and no request waits for it.
    const denied = await eventually("the limit is used up", async () => {
      const response = await send({ path: "/v1/models", headers: { ...user } });
      responses.push(response);
      return response.status === 429 ? response : undefined;
    });
    expect(denied.headers).toMatchObject({ "x-envoy-ratelimited": "true" });
    expect(responses.length, "denied by the tokens, not by the requests").toBeLessThanOrEqual(sharedLimit);
  });

  test("is decided by each proxy while the service is unavailable, without a failed request, and shared again afterwards", async () => {
    await using load = startLoad(newUser());
    await scale(service.name, 0);
    // Breakers open after the first failures.
    await eventually("the proxies decide", async () => {
      const responses = await sendMany(8, newUser());
      return responses.every(({ headers }) => headers["x-ratelimit-limit"] === `${fallback}`) ? true : undefined;
    });
    const responses = await sendMany(20, newUser());
    for (const { headers } of responses) expect(headers).not.toHaveProperty("x-envoy-ratelimited");
    await scale(service.name, 2);
    await untilShared();
    expect(failuresOf(await load.stop())).toEqual([]);
    await expectShared();
  });

  test("survives a restart of Redis without a failed request", async () => {
    await using load = startLoad(newUser());
    await kubectl(["-n", systemNamespace, "delete", "pod", "-l", "app.kubernetes.io/component=redis", "--wait"]);
    await eventually("Redis is available", async () => {
      const [deployment] = await list("deployments", "-n", systemNamespace, "-l", "app.kubernetes.io/component=redis");
      return deployment?.metadata.name === redis && deployment.status?.readyReplicas === 1 ? true : undefined;
    });
    await untilShared();
    expect(failuresOf(await load.stop())).toEqual([]);
    await expectShared();
  });

  test("is shared again after the service is replaced, without a failed request", async () => {
    await using load = startLoad(newUser());
    await kubectl(["-n", systemNamespace, "rollout", "restart", `deployment/${service.name}`]);
    await kubectl(["-n", systemNamespace, "rollout", "status", `deployment/${service.name}`, "--timeout=150s"]);
    // A proxy with a failed call calls the service again after a second.
    await untilShared();
    expect(failuresOf(await load.stop())).toEqual([]);
    await expectShared();
  });
});
