/** From a kubeconfig and `gateway/NAME` to the admin server of a pod, on the wire that kubectl speaks. */
import { createServer, type AddressInfo } from "node:net";
import { writeFile } from "node:fs/promises";
import { gatewayLabelValue } from "@gatewayproxy/proxy/gateway-label";
import { describe, expect, test } from "vitest";
import { startAdmin } from "../testing/admin.ts";
import { sampleDump } from "../testing/dump.ts";
import { proxyctl } from "../testing/run.ts";
import { type KubeScript, type ScriptedPod, startKubeApi } from "./testing/kube-api.ts";

const web = { name: "web" };

/** Runs `logging` against a cluster; the output shows which pod responded. */
async function ask(script: KubeScript, ...args: string[]) {
  const api = await startKubeApi(script);
  const run = await proxyctl(["logging", ...args, "--kubeconfig", api.kubeconfig]);
  return { ...run, api };
}

/** Pods of the Gateway `web` whose admin servers respond with the pod's name. */
async function podsOf(...pods: readonly ScriptedPod[]): Promise<readonly ScriptedPod[]> {
  return await Promise.all(
    pods.map(async (pod) => {
      const { port } = await startAdmin({ "GET /logging": `current log level is ${pod.name}\n` });
      return { gateway: "web", ...pod, ports: { 15_000: port } };
    }),
  );
}

describe("the pod that is asked", () => {
  test("is the first ready one by name", async () => {
    const pods = await podsOf({ name: "web-c" }, { name: "web-b" }, { name: "web-a", ready: false });
    expect(await ask({ gateways: [web], pods }, "gateway/web")).toMatchObject({
      exitCode: 0,
      stdout: "web-b\n",
      stderr: "",
    });
  });

  test("is found for a Gateway whose name no label can hold", async () => {
    const name = "w".repeat(100);
    const pods = (await podsOf({ name: "web-a" })).map((pod) => ({ ...pod, gateway: gatewayLabelValue(name) }));
    expect(await ask({ gateways: [{ name }], pods }, `gateway/${name}`)).toMatchObject({ stdout: "web-a\n" });
  });

  test("is not one that is about to go", async () => {
    const pods = await podsOf({ name: "web-a", isTerminating: true }, { name: "web-b" });
    expect(await ask({ gateways: [web], pods }, "gateway/web")).toMatchObject({ stdout: "web-b\n" });
  });

  test("is the one that --pod names, ready or not", async () => {
    const pods = await podsOf({ name: "web-a" }, { name: "web-b", ready: false });
    expect(await ask({ gateways: [web], pods }, "gateway/web", "--pod", "web-b")).toMatchObject({ stdout: "web-b\n" });
    expect(await ask({ gateways: [web], pods }, "pod/web-b")).toMatchObject({ stdout: "web-b\n" });
  });

  test("is none of another Gateway than the one that is named", async () => {
    const pods = await podsOf({ name: "web-a" });
    const run = await ask({ gateways: [web], pods }, "gateway/other", "--pod", "web-a");
    expect(run).toMatchObject({ exitCode: 2, stdout: "" });
    expect(run.stderr).toContain(
      'find the pod "web-a" of gateway/other: it serves gateway/web\n  name it as pod/web-a\n',
    );
    expect(await ask({ gateways: [web], pods }, "pod/web-b", "--pod", "web-a")).toMatchObject({ exitCode: 64 });
  });

  test("is every ready one with --all-pods, in the order of their names", async () => {
    const pods = await podsOf({ name: "web-c" }, { name: "web-a" }, { name: "web-b", ready: false });
    const { stdout } = await ask({ gateways: [web], pods }, "gateway/web", "--all-pods");
    expect(stdout).toBe("web-a   web-a\nweb-c   web-c\n");
  });

  test("is of the only Gateway of the namespace when none is named", async () => {
    const pods = await podsOf({ name: "web-a" });
    expect(await ask({ gateways: [web, { name: "other", namespace: "team" }], pods })).toMatchObject({
      stdout: "web-a\n",
    });
  });

  test("is in the namespace of the context, or of -n", async () => {
    const pods = await podsOf({ name: "web-a", namespace: "team" });
    const gateways = [{ name: "web", namespace: "team" }];
    expect(await ask({ gateways, pods, namespace: "team" }, "gateway/web")).toMatchObject({ stdout: "web-a\n" });
    expect(await ask({ gateways, pods }, "gateway/web", "-n", "team")).toMatchObject({ stdout: "web-a\n" });
  });

  test.each(["gateways/web", "gtw/web"])("may be named as kubectl names it: %s", async (resource) => {
    const pods = await podsOf({ name: "web-a" });
    expect(await ask({ gateways: [web], pods }, resource)).toMatchObject({ stdout: "web-a\n" });
  });
});

describe("the way to the pod", () => {
  test("sends the token of the kubeconfig, and closes every port-forward", async () => {
    const pods = await podsOf({ name: "web-a" });
    const { stdout, api } = await ask({ gateways: [web], pods, token: "s3cret" }, "gateway/web");
    expect(stdout).toBe("web-a\n");
    expect(api.requests).toEqual([
      "GET /api/v1/namespaces/default/pods?labelSelector=gateway.networking.k8s.io%2Fgateway-name%3Dweb",
      "UPGRADE /api/v1/namespaces/default/pods/web-a/portforward?ports=15000",
    ]);
    await expect.poll(() => api.openForwards()).toBe(0);
  });

  test("carries a whole response of several megabytes", async () => {
    const routes = Array.from({ length: 2_000 }, (_, at) => ({
      ...sampleDump.routes[0],
      key: `default/r${at}`,
      name: `r${at}`,
    }));
    const { port } = await startAdmin({ "GET /config_dump": { ...sampleDump, routes } });
    const api = await startKubeApi({
      gateways: [web],
      pods: [{ name: "web-a", gateway: "web", ports: { 15_000: port } }],
    });
    const run = await proxyctl(["config", "routes", "gateway/web", "--kubeconfig", api.kubeconfig]);
    expect(run.stdout.split("\n")).toHaveLength(2_002);
  });
});

describe("errors come with advice", () => {
  const cases: readonly (readonly [name: string, script: KubeScript, args: readonly string[]])[] = [
    ["no-gateway", { gateways: [{ name: "api" }, web] }, ["gateway/webb"]],
    ["gateway-elsewhere", { gateways: [{ name: "web", namespace: "team" }] }, ["gateway/web"]],
    ["no-gateway-at-all", { gateways: [] }, []],
    ["several-gateways", { gateways: [web, { name: "api" }] }, []],
    [
      "no-pods",
      { gateways: [{ ...web, gatewayClass: "gateway-prox", notProgrammed: "waiting for a controller" }] },
      ["gateway/web"],
    ],
    [
      "no-ready-pod",
      {
        gateways: [web],
        pods: [
          { name: "web-a", gateway: "web", phase: "Pending", waiting: "ImagePullBackOff" },
          { name: "web-b", gateway: "web", ready: false },
        ],
      },
      ["gateway/web"],
    ],
    ["no-such-pod", { gateways: [web] }, ["gateway/web", "--pod", "web-x"]],
    ["no-gateway-api", {}, []],
    ["forbidden-pods", { forbidden: [/pods/] }, ["gateway/web"]],
    ["forbidden-forward", { pods: [{ name: "web-a", gateway: "web" }], forbidden: [/portforward/] }, ["gateway/web"]],
    ["port-closed", { pods: [{ name: "web-a", gateway: "web" }] }, ["gateway/web", "--admin-port", "15999"]],
    ["no-such-context", {}, ["--context", "prod"]],
    ["broken-context", {}, ["--context", "broken"]],
  ];

  test.each(cases)("%s", async (name, script, args) => {
    const { exitCode, stdout, stderr, api } = await ask(script, ...args);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    await expect(stderr.replaceAll(api.kubeconfig, "KUBECONFIG")).toMatchFileSnapshot(`testdata/${name}.txt`);
  });

  test("a user whom the API server does not know", async () => {
    const api = await startKubeApi({ token: "s3cret" });
    const file = `${api.kubeconfig}-without-token`;
    const config = {
      clusters: [{ name: "c", cluster: { server: api.url } }],
      users: [{ name: "u", user: {} }],
      contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
      "current-context": "x",
    };
    await writeFile(file, JSON.stringify(config));
    const { stderr } = await proxyctl(["logging", "gateway/web", "--kubeconfig", file]);
    await expect(stderr).toMatchFileSnapshot("testdata/unauthorized.txt");
  });

  test("an API server that is not there", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    // A TCP server that listens has such an address.
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const api = await startKubeApi({});
    await writeFile(
      api.kubeconfig,
      JSON.stringify({
        clusters: [{ name: "c", cluster: { server: `http://127.0.0.1:${port}` } }],
        users: [],
        contexts: [{ name: "x", context: { cluster: "c", user: "" } }],
        "current-context": "x",
      }),
    );
    const { exitCode, stderr } = await proxyctl(["logging", "gateway/web", "--kubeconfig", api.kubeconfig]);
    expect(exitCode).toBe(2);
    await expect(stderr.replaceAll(String(port), "PORT")).toMatchFileSnapshot("testdata/unreachable.txt");
  });

  test("a kubeconfig that does not exist, or is no YAML", async () => {
    const { stderr } = await proxyctl(["logging", "gateway/web", "--kubeconfig", "/nowhere/config"]);
    await expect(stderr).toMatchFileSnapshot("testdata/no-kubeconfig.txt");
    const api = await startKubeApi({});
    await writeFile(api.kubeconfig, "clusters: [");
    const broken = await proxyctl(["logging", "gateway/web", "--kubeconfig", api.kubeconfig]);
    expect(broken.exitCode).toBe(2);
    expect(broken.stderr).toContain(`error: read ${api.kubeconfig}: `);
  });
});
