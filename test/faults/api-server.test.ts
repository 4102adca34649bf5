/**
 * The API server becomes unavailable, and returns with an older state, as after a restore from a backup. A proxy whose
 * clock runs 60 times as fast is without it for an hour by that clock.
 */
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { defineKinds } from "../kube/support/global-setup.ts";
import { apiPrograms, findRigProgram } from "../rig/binaries.ts";
import { type ControlPlane, startControlPlane } from "../rig/control-plane.ts";
import { faketimeLibrary, fastClock } from "../support/fast-clock.ts";
import { freePort } from "../support/free-port.ts";
import { spawnClusterProxy } from "../support/proxy-process.ts";
import { others, under } from "./support/fault.ts";
import { startBackendProcess } from "./support/servers.ts";

const awayMs = 60_000;
const limit = 1_000_000;

const isBuilt = apiPrograms.every((name) => findRigProgram(name) !== undefined);

const objects = (port: number, backend: number, state: string): string => `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: gateway-proxy }
spec: { controllerName: gatewayproxy.dev/controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web, namespace: default }
spec:
  gatewayClassName: gateway-proxy
  listeners: [{ name: http, protocol: HTTP, port: ${port} }]
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: b, namespace: default }
spec: { static: { host: 127.0.0.1, port: ${backend} } }
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: chat, namespace: default }
spec:
  parentRefs: [{ name: web }]
  rules:
    - backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: b }]
      filters:
        - type: ResponseHeaderModifier
          responseHeaderModifier: { set: [{ name: x-state, value: ${state} }] }
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: p, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat }]
  traffic: { rateLimit: { local: [{ requests: ${limit}, unit: Hours }] } }
`;

test.for([
  ["a minute", 1],
  ["an hour, by a clock that runs 60 times as fast", 60],
] as const)("API server unavailable for %s, then available with an older state", async ([, speed], { task, skip }) => {
  skip(!isBuilt, "it needs an API server: run test/rig/build.sh control-plane");
  skip(speed > 1 && faketimeLibrary === undefined, "it needs libfaketime: run scripts/install-test-programs.sh");
  const clock = speed === 1 ? {} : fastClock(speed);
  const plane: ControlPlane = await startControlPlane();
  onTestFinished(() => plane.stop());
  await defineKinds(plane.kubeconfig);
  const backend = await startBackendProcess();
  const port = await freePort();
  const apply = (state: string) =>
    plane.kubectl(["apply", "--server-side", "--force-conflicts", "-f", "-"], objects(port, backend.port, state));
  const [data, backup] = [join(plane.folder, "etcd"), join(plane.folder, "etcd-backup")];
  await apply("old");
  await plane.killApi();
  await cp(data, backup, { recursive: true });
  await plane.startApi();
  await apply("new");

  const args = ["--workers", "2", "--listen-address", "127.0.0.1", "--access-log", "off"];
  const allowed = ["--allow-backend-address", `127.0.0.1:${backend.port}`];
  await spawnClusterProxy(plane.kubeconfig, "default/web", [...args, ...allowed], clock);
  const send = () => fetch(`http://127.0.0.1:${port}/`);
  const state = () => send().then(({ headers }) => headers.get("x-state"));
  await expect.poll(() => state().catch(() => undefined), { timeout: 60_000 }).toBe("new");
  const remaining = async () => Number((await send()).headers.get("x-ratelimit-remaining"));

  let knownAgainMs = 0;
  let polls = 0;
  const before = await remaining();
  const seen = await under({
    port: () => port,
    inject: () => plane.killApi(),
    lastsMs: awayMs,
    async repair() {
      await rm(data, { recursive: true });
      await cp(backup, data, { recursive: true });
      await plane.startApi();
      const servesMs = performance.now();
      await expect.poll(() => (polls++, state()), { timeout: 120_000 }).toBe("old");
      knownAgainMs = performance.now() - servesMs;
    },
  });
  const counted = before - (await remaining()) - 1 - polls;
  const follows = `the older state takes effect ${(knownAgainMs / 1_000).toFixed(1)} s after it is available`;
  expect(others(seen.outcomes, "200")).toEqual([]);
  if (speed > 1) {
    // The hour of the limit ends within the test, so that its counter proves nothing.
    task.meta.figures = seen.figures(follows);
    return;
  }
  task.meta.figures = seen.figures(`${seen.outcomes.length} allowed; ${counted} counted; ${follows}`);
  expect(counted).toBe(seen.outcomes.length);
});
