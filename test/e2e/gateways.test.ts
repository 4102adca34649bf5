import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { failuresOf, send, sendMany, startLoad } from "./support/client.ts";
import {
  apply,
  context,
  createNamespace,
  eventually,
  kubectl,
  list,
  readyProxies,
  tryKubectl,
} from "./support/cluster.ts";
import { gateway, llm, route } from "./support/manifests.ts";

const namespace = "e2e-gateways";
const models = { path: "/v1/models" } as const;
const ofGateway = ["-n", namespace, "-l", "gateway.networking.k8s.io/gateway-name=edge"] as const;
const ownedKinds = "deployments,services,serviceaccounts,poddisruptionbudgets,roles,rolebindings,networkpolicies";

let created: AsyncDisposable;

beforeAll(async () => {
  created = await createNamespace(namespace);
  await apply(namespace, llm, ...gateway("edge"), route("all", "edge"));
  await kubectl(["-n", namespace, "wait", "gateway/edge", "--for=condition=Programmed", "--timeout=90s"]);
  await twoServe();
});

afterAll(async () => {
  await created[Symbol.asyncDispose]();
});

async function twoServe(): Promise<void> {
  await eventually("both proxies are ready", async () =>
    (await readyProxies(namespace, "edge")).length === 2 ? true : undefined,
  );
  await eventually("both proxies respond", async () => {
    const responses = await sendMany(16, models);
    return responses.every(({ status }) => status === 200) ? true : undefined;
  });
}

async function deploymentName(): Promise<string> {
  const [deployment] = await list("deployments", ...ofGateway);
  return deployment?.metadata.name ?? "";
}

describe("the proxies of a Gateway", () => {
  test("run where the Pod Security Standard restricted is enforced", async () => {
    expect(await readyProxies(namespace, "edge")).toHaveLength(2);
  });

  test("are replaced under load without a failed request", async () => {
    await using load = startLoad(models);
    const deployment = `deployment/${await deploymentName()}`;
    await kubectl(["-n", namespace, "rollout", "restart", deployment]);
    await kubectl(["-n", namespace, "rollout", "status", deployment, "--timeout=150s"]);
    const responses = await load.stop();
    expect(responses.length).toBeGreaterThan(100);
    expect(failuresOf(responses)).toEqual([]);
    await twoServe();
  });

  test("are not evicted all at once", async () => {
    const pods = await readyProxies(namespace, "edge");
    const evict = (name: string) => {
      const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace } };
      const path = `/api/v1/namespaces/${namespace}/pods/${name}/eviction`;
      return tryKubectl(["create", "--raw", path, "-f", "-"], JSON.stringify(eviction));
    };
    const outcomes = [];
    for (const { metadata } of pods) outcomes.push(await evict(metadata.name));
    expect(outcomes.map(({ code }) => code === 0)).toEqual([true, false]);
    expect(outcomes[1]?.stderr).toContain("disruption budget");
    await twoServe();
  });

  test("serve the admin server over a port-forward only", async () => {
    const [pod] = await readyProxies(namespace, "edge");
    const name = pod?.metadata.name ?? "";
    // The API server connects to the pod's address, like any other pod.
    const port = (number: number, path: string) =>
      `/api/v1/namespaces/${namespace}/pods/${name}:${number}/proxy/${path}`;
    expect(await kubectl(["get", "--raw", port(15_020, "metrics")])).toContain("gateway_proxy_workers");
    expect((await tryKubectl(["get", "--raw", port(15_000, "config_dump")])).code).not.toBe(0);
    const forward = spawn(
      "kubectl",
      ["--context", context, "-n", namespace, "port-forward", `pod/${name}`, "0:15000"],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    try {
      const [line] = (await once(forward.stdout, "data")) as [Buffer];
      const local = Number(/127\.0\.0\.1:(\d+)/.exec(line.toString())?.[1]);
      const { status } = await send({ port: local, path: "/config_dump", host: `localhost:${local}` });
      expect(status).toBe(200);
    } finally {
      forward.kill();
      await once(forward, "exit");
    }
  });

  test("are created again when their Deployment is deleted", async () => {
    const before = await list("deployments", ...ofGateway);
    await kubectl(["delete", "deployment", ...ofGateway]);
    const after = await eventually("there is another Deployment", async () => {
      const found = await list("deployments", ...ofGateway);
      return found.length === 1 && found[0]?.metadata.uid !== before[0]?.metadata.uid ? found : undefined;
    });
    expect(after[0]?.metadata.name).toBe(before[0]?.metadata.name);
    await twoServe();
  });

  test("are deleted with the Gateway, and so is everything that was created for it", async () => {
    expect((await list(ownedKinds, ...ofGateway)).length).toBeGreaterThanOrEqual(4);
    await kubectl(["-n", namespace, "delete", "gateway", "edge", "--wait"]);
    const left = await eventually("everything is deleted", async () => {
      const found = await list(`${ownedKinds},pods`, ...ofGateway);
      return found.length === 0 ? found : undefined;
    });
    expect(left).toEqual([]);
  });
});
