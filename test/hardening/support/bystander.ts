/**
 * A tenant beside the one that attacks: a Gateway of the namespace `default` with a route, a proxy that serves it, and
 * the controller. Both programs are watched while another namespace gets objects.
 */
import { expect } from "vitest";
import type { KubeObject } from "../../../proxy/src/kube/object.ts";
import { freePort } from "../../support/free-port.ts";
import { type ObjectApiServer, startObjectApiServer } from "../../support/object-api-server.ts";
import { programFile } from "../../support/program-file.ts";
import { startWatched, type WatchedProcess } from "./watched-process.ts";
import { gatewayApi } from "../../support/api-versions.ts";

/** The time until an edit of the bystander is in effect, and its status is written. */
const timeoutMs = 120_000;

const routes = `/apis/${gatewayApi}/httproutes`;

export interface Bystander {
  readonly api: ObjectApiServer;
  readonly proxy: WatchedProcess;
  readonly controller: WatchedProcess;
  /** Resolves when an edit of the bystander is served and has its status. */
  readonly effective: (mark: string) => Promise<void>;
}

/** An object without a namespace if `namespace` is empty. */
export function object(
  apiVersion: string,
  kind: string,
  namespace: string,
  name: string,
  fields: object,
  metadata: object = {},
): KubeObject {
  return { apiVersion, kind, metadata: { name, ...(namespace !== "" && { namespace }), ...metadata }, ...fields };
}

const marker = (mark: string): KubeObject =>
  object(gatewayApi, "HTTPRoute", "default", "marker", {
    spec: {
      parentRefs: [{ name: "web" }],
      rules: [
        {
          filters: [
            {
              type: "RequestRedirect",
              requestRedirect: { path: { type: "ReplaceFullPath", replaceFullPath: `/${mark}` } },
            },
          ],
        },
      ],
    },
  });

/** Starts both programs, and resolves when they have served a few edits. */
export async function startBystander(): Promise<Bystander> {
  const api = await startObjectApiServer();
  const port = await freePort();
  api.put(
    `/apis/${gatewayApi}/gatewayclasses`,
    object(gatewayApi, "GatewayClass", "", "gateway-proxy", {
      spec: { controllerName: "gatewayproxy.dev/controller" },
    }),
  );
  api.put(
    `/apis/${gatewayApi}/gateways`,
    object(gatewayApi, "Gateway", "default", "web", {
      spec: { gatewayClassName: "gateway-proxy", listeners: [{ name: "http", port, protocol: "HTTP" }] },
    }),
  );
  api.put(routes, marker("first"));
  const env = { KUBECONFIG: api.kubeconfig, UV_THREADPOOL_SIZE: "1" };
  const [proxy, controller] = await Promise.all([
    startWatched({
      main: programFile("proxy", "proxy"),
      args: [
        ...["--kubernetes", "--gateway", "default/web", "--workers", "1", "--access-log", "off"],
        ...["--listen-address", "127.0.0.1", "--admin-address", "127.0.0.1:0"],
      ],
      env,
      threads: 2,
    }),
    startWatched({
      main: programFile("proxy", "controller"),
      args: ["--proxy-image", "test/proxy:1", "--namespace", "system", "--identity", "one"],
      env,
      threads: 1,
    }),
  ]);
  const served = (): Promise<string> =>
    fetch(`http://127.0.0.1:${port}/`, { redirect: "manual" }).then(
      async (response) => {
        await response.arrayBuffer();
        return response.headers.get("location") ?? "";
      },
      () => "",
    );
  const hasStatus = (): boolean => {
    const route = api.get(routes, "default", "marker");
    const { generation } = (route?.["metadata"] ?? {}) as { generation?: number };
    return JSON.stringify(route?.["status"] ?? "").includes(`"observedGeneration":${String(generation)}`);
  };
  const effective = async (mark: string): Promise<void> => {
    api.put(routes, marker(mark));
    const isServed = async (): Promise<boolean> => (await served()).endsWith(`/${mark}`);
    await expect.poll(async () => hasStatus() && (await isServed()), { timeout: timeoutMs, interval: 20 }).toBe(true);
  };
  for (let times = 0; times < 3; times++) await effective(`warm-${times}`);
  return { api, proxy, controller, effective };
}

/** Expects that both programs live on, are ready, and keep at most `maxGrowthBytes` of what `attack` does. */
export async function expectUnaffected(
  { api, proxy, controller, effective }: Bystander,
  maxGrowthBytes: number,
  attack: (api: ObjectApiServer) => Promise<void>,
): Promise<void> {
  const programs = [proxy, controller];
  const before = await Promise.all(programs.map((each) => each.heapBytes()));
  await attack(api);
  await effective("during");
  await effective("after");
  for (const [index, each] of programs.entries()) {
    expect(each.hasEnded(), each.output()).toBe(false);
    expect((await fetch(`${each.readiness}/healthz/ready`)).status).toBe(200);
    // Statuses are still being written, from a plan that is in memory until then.
    const growth = async (): Promise<number> => (await each.heapBytes()) - (before[index] ?? 0);
    await expect.poll(growth, { timeout: timeoutMs, interval: 500 }).toBeLessThan(maxGrowthBytes);
  }
}

/** Puts objects, which the programs read meanwhile. */
export async function putAll(
  api: ObjectApiServer,
  collection: string,
  count: number,
  make: (index: number) => KubeObject,
): Promise<void> {
  for (let index = 0; index < count; index++) {
    api.put(collection, make(index));
    if (index % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
}
