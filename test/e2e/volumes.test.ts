/** Proxies with volumes, on a node that mounts them: counters of long windows outlive their pods. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { changeChartValues } from "./support/chart-values.ts";
import { send } from "./support/client.ts";
import { apply, createNamespace, eventually, kubectl, list, readyProxies, type KubeObject } from "./support/cluster.ts";
import { gateway, llm, policy, route } from "./support/manifests.ts";
import { boundClaims, createVolumes, type NodeVolumes } from "./support/volumes.ts";

const namespace = "e2e-volumes";
const models = { path: "/v1/models" } as const;
const ofGateway = ["-n", namespace, "-l", "gateway.networking.k8s.io/gateway-name=durable"] as const;
const limit = 1_000;
/** On a busy machine it takes minutes to replace a proxy. */
const polling = { timeoutMs: 150_000 };

let volumes: NodeVolumes;

beforeAll(async () => {
  // One for each Gateway below, and some for those of the examples, to which the chart gives volumes, too.
  volumes = await createVolumes("e2e-volumes", 8);
});

afterAll(async () => {
  await volumes[Symbol.asyncDispose]();
});

/** Creates a Gateway with one proxy, whose requests of a day are limited. */
async function createGateway(parameters: Readonly<Record<string, string>> = {}): Promise<AsyncDisposable> {
  const space = await createNamespace(namespace);
  const target = { kind: "HTTPRoute", name: "all" } as const;
  await apply(
    namespace,
    ...[llm, ...gateway("durable", { replicas: 1, parameters }), route("all", "durable")],
    policy("daily", target, { local: [{ requests: limit, unit: "Days", window: "Sliding" }] }),
  );
  await kubectl(["-n", namespace, "wait", "gateway/durable", "--for=condition=Programmed", "--timeout=150s"]);
  return space;
}

/** Sends a request, and returns how many the counter has with it. */
async function count(): Promise<number> {
  return await eventually(
    "the limit decides",
    async () => {
      const { status, headers } = await send(models);
      const remaining = headers["x-ratelimit-remaining"];
      return status === 200 && remaining !== undefined ? limit - Number(remaining) : undefined;
    },
    polling,
  );
}

/** Returns the proxy when it is ready, and another pod than `before`. */
function proxy(before?: KubeObject): Promise<KubeObject> {
  return eventually(
    "a proxy is ready",
    async () =>
      (await readyProxies(namespace, "durable")).find(({ metadata }) => metadata.uid !== before?.metadata.uid),
    polling,
  );
}

/** Resolves when the file of a proxy has everything that is counted before this call. */
async function saved({ metadata }: KubeObject): Promise<void> {
  const nowMs = Date.now();
  const page = `/api/v1/namespaces/${namespace}/pods/${metadata.name}:15020/proxy/metrics`;
  await eventually("the counters are saved", async () => {
    const [, seconds] =
      /^gateway_proxy_state_last_save_timestamp_seconds (\S+)$/m.exec(await kubectl(["get", "--raw", page])) ?? [];
    return Number(seconds) * 1_000 > nowMs ? true : undefined;
  });
}

async function expectVolume(): Promise<void> {
  const pod = await proxy();
  expect(pod.metadata.name).toMatch(/-0$/);
  const claims = await boundClaims(namespace, "durable");
  expect(claims.map(({ name }) => name)).toEqual([`state-${pod.metadata.name}`]);
  expect((await list("deployments", ...ofGateway)).length).toBe(0);
  await saved(pod);
  expect(await volumes.files(claims[0]?.volume ?? "")).toEqual(
    expect.arrayContaining(["counters/counters", "counters/lock"]),
  );
}

describe("a Gateway whose parameters have persistentVolumeClaim", () => {
  const created = new AsyncDisposableStack();
  afterAll(() => created.disposeAsync());
  beforeAll(async () => {
    const claim = {
      spec: { storageClassName: volumes.storageClassName, resources: { requests: { storage: "10Mi" } } },
    };
    created.use(await createGateway({ persistentVolumeClaim: JSON.stringify(claim) }));
  });

  test("has a proxy of a StatefulSet, which saves its counters on its volume", async () => {
    await expectVolume();
    const persistent = "jsonpath={.status.conditions[?(@.type=='PersistentCounters')].status}=True";
    await kubectl(["-n", namespace, "wait", "gateway/durable", `--for=${persistent}`, "--timeout=60s"]);
  });

  test("keeps its counters when the pod is deleted", async () => {
    const pod = await proxy();
    const used = await count();
    await kubectl(["-n", namespace, "delete", "pod", pod.metadata.name, "--wait"]);
    const next = await proxy(pod);
    expect(next.metadata.name).toBe(pod.metadata.name);
    expect(await count()).toBe(used + 1);
  });

  test("keeps what was saved when the pod is killed", async () => {
    const pod = await proxy();
    const used = await count();
    await saved(pod);
    await kubectl(["-n", namespace, "delete", "pod", pod.metadata.name, "--grace-period=0", "--force"]);
    await proxy(pod);
    expect(await count()).toBe(used + 1);
  });

  test("keeps its counters when the proxies are restarted", async () => {
    const pod = await proxy();
    const used = await count();
    await kubectl(["-n", namespace, "rollout", "restart", "statefulset", "-l", ofGateway[3]]);
    await proxy(pod);
    expect(await count()).toBe(used + 1);
  });

  test("loses its volumes when it is deleted", async () => {
    await kubectl(["-n", namespace, "delete", "gateway", "durable", "--wait"]);
    const left = await eventually("the claims are deleted", async () => {
      const found = await list("persistentvolumeclaims", ...ofGateway);
      return found.length === 0 ? found : undefined;
    });
    expect(left).toEqual([]);
  });
});

describe("a Gateway of a chart with counters.persistence", () => {
  const created = new AsyncDisposableStack();
  afterAll(() => created.disposeAsync());
  beforeAll(async () => {
    const values = ["enabled=true", "size=10Mi", `storageClassName=${volumes.storageClassName}`];
    const set = values.map((value) => `counters.persistence.${value}`).join();
    created.use(await changeChartValues(["--set", set]));
    created.use(await createGateway());
  });

  test("has the same", async () => {
    await expectVolume();
    const pod = await proxy();
    const used = await count();
    await kubectl(["-n", namespace, "delete", "pod", pod.metadata.name, "--wait"]);
    await proxy(pod);
    expect(await count()).toBe(used + 1);
  });
});
