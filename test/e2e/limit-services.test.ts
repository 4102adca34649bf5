/**
 * The examples on each rate limit service that `scripts/kind-up.sh --limit-service` offers, and manifests of others in
 * which only the image is replaced by ours.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { recordNotRun } from "../../scripts/not-run.ts";
import {
  examplePort,
  failuresOf,
  send,
  sendMany,
  sendUntilDenied,
  startLoad,
  tally,
  type TestRequest,
} from "./support/client.ts";
import { attempt, eventually, kubectl, list, release, systemNamespace, tryKubectl } from "./support/cluster.ts";

const repository = join(import.meta.dirname, "../..");
const script = join(repository, "scripts/kind-limit-service.sh");
const offline = process.env["KIND_OFFLINE"] === "true" ? ["--offline"] : [];

/** The limits of each user per minute in the examples, in every service. */
const limit = 6;
const tokens = 1_000;
/** The fallback limit of the example for each of its two replicas. */
const share = 3;
/** Enough that every thread of both replicas gets some. */
const enoughForAllThreads = 24;

/** Each call from a pod starts a Node process. */
const polling = { timeoutMs: 120_000 };

let users = 0;

/** A user without requests so far, for the example whose limit a service counts. */
function newUser(): TestRequest & { readonly headers: Readonly<Record<string, string>> } {
  users += 1;
  return { path: "/team/v1/models", port: examplePort, headers: { "x-user": `${process.pid}-${users}` } };
}

/** Runs the script; rejects with its output. */
async function choose(name: string, image = ""): Promise<void> {
  const { code, stdout, stderr } = await attempt("env", [`LIMIT_SERVICE_IMAGE=${image}`, script, ...offline, name]);
  if (code !== 0) throw new Error(stderr + stdout);
  // The policy, as users copy it, has the default of 100 ms; the speed of the machine is not the subject.
  await kubectl(patchOf({ timeout: "1s" }));
}

/** Arguments for kubectl that change fields of the example's global limit. */
function patchOf(global: object): readonly string[] {
  const patch = JSON.stringify({ spec: { traffic: { rateLimit: { global } } } });
  return ["-n", "default", "patch", "proxypolicy", "team-limits", "--type", "merge", "-p", patch];
}

/** Waits until the service decides for all threads of both replicas: every response has its limit. */
async function untilShared(): Promise<void> {
  await eventually("the service decides", async () => {
    const responses = await sendMany(enoughForAllThreads, newUser());
    return responses.every(({ headers }) => String(headers["x-ratelimit-limit"]).startsWith(`${limit}`))
      ? true
      : undefined;
  });
}

/** Waits for a new minute if little is left of this one: the windows of services follow the clock. */
async function enoughOfTheMinute(): Promise<void> {
  const left = 60_000 - (Date.now() % 60_000);
  if (left < 5_000) await delay(left + 200);
}

async function expectShared(): Promise<void> {
  await enoughOfTheMinute();
  const responses = await sendUntilDenied(newUser(), { denials: 20 });
  expect(tally(responses)).toEqual({ 200: limit, 429: responses.length - limit });
  expect(responses.find(({ status }) => status === 429)?.headers).toMatchObject({ "x-envoy-ratelimited": "true" });
}

/** Two responses that cost more than the token limit, and the denial of the next request. */
async function expectTokensShared(): Promise<void> {
  await enoughOfTheMinute();
  const { headers } = newUser();
  const more = { ...headers, "x-mock-total-tokens": `${tokens / 2 + 1}` };
  const body = { model: "mock-1", stream: true, messages: [{ role: "user", content: "Hi" }] };
  const request = { path: "/team/v1/chat/completions", port: examplePort, headers: more, body };
  for (const { status, body: text } of [await send(request), await send(request)]) {
    expect([status, text]).toEqual([200, expect.stringMatching(/\[DONE\]\s*$/)]);
  }
  let sent = 2;
  await eventually("the limit is used up", async () => {
    sent += 1;
    const { status } = await send({ path: "/team/v1/models", port: examplePort, headers });
    return status === 429 ? true : undefined;
  });
  expect(sent, "denied by the tokens, not by the requests").toBeLessThanOrEqual(limit);
}

async function scale(namespace: string, deployment: string, replicas: number): Promise<void> {
  await kubectl(["-n", namespace, "scale", `deployment/${deployment}`, `--replicas=${replicas}`]);
  await eventually(`${deployment} has ${replicas} pods`, async () => {
    const { spec, status } = JSON.parse(
      await kubectl(["-n", namespace, "get", "deployment", deployment, "-o", "json"]),
      // As the API server writes it.
    ) as { spec: { replicas: number }; status: { replicas?: number; readyReplicas?: number } };
    const [all = 0, ready = 0] = [status.replicas, status.readyReplicas];
    return spec.replicas === replicas && all === replicas && ready === replicas ? true : undefined;
  });
}

/** While it is unavailable the proxies count, no request fails, and it decides again once it returns. */
async function expectOutageUnnoticed(namespace: string, deployment: string): Promise<void> {
  await using load = startLoad(newUser());
  await kubectl(["-n", namespace, "scale", `deployment/${deployment}`, "--replicas=0"]);
  await eventually("the proxies decide", async () => {
    const responses = await sendMany(8, newUser());
    return responses.every(({ headers }) => headers["x-ratelimit-limit"] === `${share}`) ? true : undefined;
  });
  await scale(namespace, deployment, 1);
  await untilShared();
  expect(failuresOf(await load.stop())).toEqual([]);
  await expectShared();
}

/** Events of a namespace that report a failed probe. */
async function failedProbes(namespace: string, pod: string): Promise<readonly unknown[]> {
  return list("events", "-n", namespace, "--field-selector", `reason=Unhealthy,involvedObject.name=${pod}`);
}

/**
 * Nothing restarts while Redis is unavailable: each probe of these manifests runs at least once in that time, and none
 * fails.
 */
async function expectRedisOutageRestartsNothing(namespace: string, app: string): Promise<void> {
  const pods = await list("pods", "-n", namespace, "-l", app, "--field-selector", "status.phase=Running");
  const [pod] = pods.filter(({ metadata }) => !("deletionTimestamp" in metadata));
  const name = pod?.metadata.name ?? "";
  const before = await failedProbes(namespace, name);
  await scale(namespace, "redis", 0);
  // The longest period of a liveness probe, and its timeout.
  await delay(11_000);
  expect(await failedProbes(namespace, name)).toEqual(before);
  const counts = "jsonpath={.status.containerStatuses[*].restartCount} {.status.containerStatuses[*].ready}";
  expect(await kubectl(["-n", namespace, "get", "pod", name, "-o", counts])).toBe("0 true");
  await scale(namespace, "redis", 1);
}

const viaApi = (namespace: string, target: string) =>
  kubectl(["get", "--raw", `/api/v1/namespaces/${namespace}/services/${target}`]);

afterAll(async () => {
  await choose("ours");
});

/** One after the other in one namespace; only the image may differ from the previous row. */
const services = [
  { name: "envoyproxy", image: "", namespace: "ratelimit", deployment: "ratelimit" },
  { name: "envoyproxy", image: "ours", namespace: "ratelimit", deployment: "ratelimit" },
  { name: "envoy-gateway", image: "", namespace: "envoy-gateway-system", deployment: "envoy-ratelimit" },
  { name: "envoy-gateway", image: "ours", namespace: "envoy-gateway-system", deployment: "envoy-ratelimit" },
] as const;

const limitador = { name: "limitador", image: process.env["LIMITADOR_IMAGE"] ?? "", deployment: "limitador" } as const;
const canRunLimitador = limitador.image !== "" || offline.length === 0;
if (!canRunLimitador) {
  recordNotRun(
    "examples on Limitador (test/e2e/limit-services.test.ts)",
    "its image cannot be pulled here; LIMITADOR_IMAGE names one. A scripted service has its methods: test/integration/global-limits.test.ts",
  );
}
const all = canRunLimitador ? [...services, { ...limitador, namespace: "limitador" }] : services;

describe.each(all)("the examples on $name with image '$image'", ({ name, image, namespace, deployment }) => {
  beforeAll(async () => {
    await choose(name, image);
    await untilShared();
  });

  test("share a request limit", expectShared);

  test("share a token limit", expectTokensShared);

  if (image !== "ours") {
    test("continue without the service", () => expectOutageUnnoticed(namespace, deployment));
    return;
  }

  test("continue without Redis, and nothing restarts", async () => {
    const app = name === "envoyproxy" ? "app=ratelimit" : "app.kubernetes.io/name=envoy-ratelimit";
    await expectRedisOutageRestartsNothing(namespace, app);
    await untilShared();
  });
});

test("our image enforces limits that Envoy Gateway sends by xDS, and has the reference's metrics", async () => {
  const namespace = "envoy-gateway-system";
  const name = "httproute/default/app/rule/0/match/0/app_example";
  // With the descriptors of Envoy Gateway's proxies, and without a limit of the policy.
  const entries = [
    { name, expression: `'${name}'` },
    { name: "rule-0-match-0", expression: 'request.headers["x-user"]' },
  ];
  await kubectl(patchOf({ descriptors: [{ entries }] }));
  await eventually("the limit of Envoy Gateway is in the responses", async () => {
    const responses = await sendMany(enoughForAllThreads, newUser());
    return responses.every(({ headers }) => headers["x-ratelimit-limit"] === "3, 3;w=3600") ? true : undefined;
  });
  const responses = await sendUntilDenied(newUser(), { denials: 8 });
  expect(tally(responses)).toEqual({ 200: 3, 429: responses.length - 3 });
  const metrics = await viaApi(namespace, "envoy-ratelimit:19001/proxy/metrics");
  for (const metric of ["total_hits", "within_limit", "over_limit"]) {
    expect(metrics).toMatch(
      new RegExp(`^ratelimit_service_rate_limit_${metric}\\{domain="default/eg/http",.*\\} \\d+$`, "m"),
    );
  }
});

test("our image serves Istio's sample, and a Redis outage restarts nothing", async () => {
  const namespace = "e2e-istio-sample";
  const image = "jsonpath={.spec.template.spec.containers[0].image}";
  const imageOf = (part: string): Promise<string> =>
    kubectl(["-n", systemNamespace, "get", `deployment/${release}-${part}`, "-o", image]);
  const manifest = readFileSync(join(import.meta.dirname, "testdata/istio-ratelimit.yaml"), "utf8")
    .replace("REDIS_IMAGE", await imageOf("redis"))
    .replace("RATELIMIT_IMAGE", await imageOf("ratelimit-service"));
  // The namespace of an earlier try may still be terminating.
  await kubectl(["delete", "namespace", namespace, "--ignore-not-found"]);
  await kubectl(["create", "namespace", namespace]);
  try {
    await kubectl(["-n", namespace, "apply", "-f", "-"], manifest);
    await kubectl(["-n", namespace, "wait", "deployments", "--all", "--for=condition=Available", "--timeout=90s"]);
    const command = [
      ...["-n", namespace, "exec", "deploy/ratelimit", "--", "/bin/ratelimit_client"],
      ...["-dial_string", "ratelimit:8081", "-domain", "echo-ratelimit", "-descriptors", "PATH=/"],
    ];
    let output = "";
    const isOverLimit = async (): Promise<true | undefined> => {
      const { stdout, stderr } = await tryKubectl(command);
      output = stdout + stderr;
      return /"overallCode":"OVER_LIMIT"/.test(stdout) ? true : undefined;
    };
    const untilOverLimit = () =>
      eventually("it counts", isOverLimit, polling).catch((error: unknown) => {
        throw new Error(`the client printed: ${output}`, { cause: error });
      });
    await untilOverLimit();
    const stats = await viaApi(namespace, "ratelimit:6070/proxy/stats");
    expect(stats).toMatch(/^ratelimit\.service\.rate_limit\.echo-ratelimit\.PATH_\/\.within_limit: 1$/m);
    await expectRedisOutageRestartsNothing(namespace, "app=ratelimit");
    await untilOverLimit();
  } finally {
    await kubectl(["delete", "namespace", namespace, "--wait=false"]);
  }
});
