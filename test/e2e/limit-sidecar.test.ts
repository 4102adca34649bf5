/** The chart with the rate limit service as a sidecar of each proxy. */
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { changeChartValues } from "./support/chart-values.ts";
import { sendMany, sendUntilDenied, startLoad, tally, type TestRequest, type TestResponse } from "./support/client.ts";
import { apply, createNamespace, eventually, kubectl, list, readyProxies } from "./support/cluster.ts";
import { gateway, llm, policy, route } from "./support/manifests.ts";

const namespace = "e2e-sidecar";
const replicas = 2;
/** Requests that examples/kind/values.yaml allows each user in a minute. */
const limit = 6;
/** On a busy machine it takes minutes to replace all proxies. */
const polling = { timeoutMs: 180_000 };
/** The node of a test cluster has few processors, and a rollout needs room for a third proxy. */
const sidecar = ["rateLimitService.mode=Sidecar", "rateLimitService.resources.requests.cpu=10m"];

let users = 0;

/** A user without requests so far. */
function newUser(): TestRequest & { readonly path: string } {
  users += 1;
  return { path: "/v1/models", headers: { "x-user": `${namespace}-${process.pid}-${users}` } };
}

/**
 * Waits until both proxies get requests, which a node sends them some time after they are ready, and until all
 * responses have the limit of the service.
 */
async function untilEnforced(): Promise<void> {
  await eventually(
    "the sidecars of both proxies decide",
    async () => {
      const user = newUser();
      const responses = await sendMany(40, user);
      const pods = await readyProxies(namespace, "sidecar");
      const logs = await Promise.all(pods.map(({ metadata }) => kubectl(["-n", namespace, "logs", metadata.name])));
      const isLimited = responses.every(({ headers }) => hasLimit(headers));
      return isLimited && logs.every((log) => log.includes(user.path)) ? true : undefined;
    },
    polling,
  );
}

function hasLimit(headers: TestResponse["headers"]): boolean {
  return String(headers["x-ratelimit-limit"]).startsWith(`${limit}`);
}

/** Waits for the next minute if this one ends soon, because windows begin with each minute. */
async function enoughOfTheMinute(): Promise<void> {
  const left = 60_000 - (Date.now() % 60_000);
  if (left < 15_000) await delay(left + 500);
}

async function containersReady(): Promise<true | undefined> {
  const pods = await readyProxies(namespace, "sidecar");
  const withService = pods.filter(({ spec }) => JSON.stringify(spec?.["initContainers"]).includes("ratelimit-service"));
  return pods.length === replicas && withService.length === replicas ? true : undefined;
}

describe.each([
  { store: "in memory", args: ["--set", "redis.enabled=false"], allowed: replicas * limit },
  { store: "in Redis", args: [], allowed: limit },
])("a rate limit service beside each proxy, with counters $store", ({ args, allowed }) => {
  const created = new AsyncDisposableStack();

  beforeAll(async () => {
    created.use(await changeChartValues(["--set", sidecar.join(), ...args]));
    created.use(await createNamespace(namespace));
    const global = {
      address: "127.0.0.1:15081",
      domain: "team",
      // The machine may be busy, and the speed of the service is not the subject.
      timeout: "1s",
      descriptors: [{ entries: [{ name: "user", expression: 'request.headers["x-user"]' }] }],
    };
    await apply(namespace, llm, ...gateway("sidecar", { replicas }), route("all", "sidecar"));
    await apply(namespace, policy("beside", { kind: "HTTPRoute", name: "all" }, { global }));
    await kubectl(["-n", namespace, "wait", "gateway/sidecar", "--for=condition=Programmed", "--timeout=90s"]);
    await eventually("both proxies have a sidecar and are ready", containersReady, polling);
    await untilEnforced();
  }, 600_000);

  afterAll(() => created.disposeAsync(), 300_000);

  test(`allows each user ${allowed} requests`, async () => {
    await enoughOfTheMinute();
    const responses = await sendUntilDenied(newUser());
    expect(tally(responses)).toEqual({ 200: allowed, 429: responses.length - allowed });
  });

  test("decides from the first request of a proxy to its last", { timeout: 300_000 }, async () => {
    const before = (await readyProxies(namespace, "sidecar")).map(({ metadata }) => metadata.name);
    await using load = startLoad(newUser());
    const [deployment] = await list("deployments", "-n", namespace);
    await kubectl(["-n", namespace, "rollout", "restart", `deployment/${deployment?.metadata.name}`]);
    await eventually(
      "both proxies are replaced",
      async () => {
        const pods = await readyProxies(namespace, "sidecar");
        const isNew = pods.every(({ metadata }) => !before.includes(metadata.name));
        return pods.length === replicas && isNew ? true : undefined;
      },
      polling,
    );
    const responses = await load.stop();
    const withoutLimit = responses.filter(
      ({ headers }) => !String(headers["x-ratelimit-limit"]).startsWith(`${limit}`),
    );
    expect(withoutLimit.map(({ status, body }) => `${status} ${body}`)).toEqual([]);
    expect(responses.length).toBeGreaterThan(0);
  });
});
