/**
 * Routes with many parents, whose statuses have messages of some kilobytes for each. The API server returns each status
 * with 140 KB: those of 900 routes take more than the memory of a controller by the chart's defaults.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../../support/free-port.ts";
import { memoryCgroup } from "../../support/memory-cgroup.ts";
import { startObjectApiServer } from "../../support/object-api-server.ts";
import { programFile } from "../../support/program-file.ts";
import { object, putAll } from "../support/bystander.ts";
import { gatewayApi } from "../../support/api-versions.ts";
import { times } from "../support/tenant-objects.ts";

const containerBytes = 512 * 1024 * 1024;
const gateways = `/apis/${gatewayApi}/gateways`;
const httpRoutes = `/apis/${gatewayApi}/httproutes`;
const parents = 32;
/** As many routes as a namespace has room for, in each of some. */
const routesOfNamespace = 300;
const crowds = times(3, (at) => `crowd-${at}`);

function gateway(namespace: string, name: string) {
  const listeners = [{ name: "http", port: 80, protocol: "HTTP" }];
  return object(gatewayApi, "Gateway", namespace, name, { spec: { gatewayClassName: "gateway-proxy", listeners } });
}

/** A route to Services of another namespace, which no grant permits. */
function routeAt(namespace: string, index: number) {
  const rule = (at: number) => ({
    matches: [{ path: { type: "PathPrefix", value: `/${at}` } }],
    backendRefs: times(10, (ref) => ({
      ...{ group: "", kind: "Service", namespace: "z".repeat(61), port: 80, weight: 1 },
      name: `s${at}-${ref}-${"y".repeat(55)}`,
    })),
  });
  const parentRefs = times(parents, (at) => ({
    group: "gateway.networking.k8s.io",
    kind: "Gateway",
    name: `g${at}`,
  }));
  const spec = { parentRefs, hostnames: [`r${index}.test`], rules: times(2, rule) };
  return object(gatewayApi, "HTTPRoute", namespace, `r${index}`, { spec });
}

test("the controller writes hundreds of long statuses within the memory of its container", {
  timeout: 420_000,
}, async () => {
  const cgroup = memoryCgroup(containerBytes);
  // Some machines permit no memory limits.
  if (cgroup === undefined) return;
  const api = await startObjectApiServer();
  const spec = { controllerName: "gatewayproxy.dev/controller" };
  api.put(`/apis/${gatewayApi}/gatewayclasses`, object(gatewayApi, "GatewayClass", "", "gateway-proxy", { spec }));
  api.put(gateways, gateway("other", "web"));
  for (const crowd of crowds) {
    await putAll(api, gateways, parents, (at) => gateway(crowd, `g${at}`));
    await putAll(api, httpRoutes, routesOfNamespace, (at) => routeAt(crowd, at));
  }
  const pages = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
  const args = ["--proxy-image", "test/proxy:1", "--namespace", "system", "--identity", "one"];
  const addresses = ["--stats-address", pages[0] ?? "", "--readiness-address", pages[1] ?? ""];
  const program = [process.execPath, programFile("proxy", "controller"), ...args, ...addresses];
  const inCgroup = ["-c", `echo $$ > ${cgroup.path}/cgroup.procs; exec "$@"`, "sh"];
  const child = spawn("sh", [...inCgroup, ...program], {
    env: { ...process.env, KUBECONFIG: api.kubeconfig },
    stdio: "ignore",
  });
  const exited = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exited;
  });
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  const hasStatus = (crowd: string, index: number) => api.get(httpRoutes, crowd, `r${index}`)?.["status"] !== undefined;
  const missing = () =>
    crowds.flatMap((crowd) => times(routesOfNamespace, (index) => hasStatus(crowd, index))).filter((has) => !has)
      .length;
  await expect.poll(() => hasEnded() || missing() === 0, { timeout: 300_000, interval: 1_000 }).toBe(true);
  expect([child.exitCode, child.signalCode]).toEqual([null, null]);
  expect(JSON.stringify(api.get(gateways, "other", "web")?.["status"])).toContain("Programmed");
});
