/**
 * One namespace has 40 MB of routes, or of Gateways, which with what is computed of them take more than the memory of a
 * controller by the chart's defaults. It lives on, and takes care of another namespace.
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

function gateway(namespace: string) {
  const listeners = [{ name: "http", port: 80, protocol: "HTTP" }];
  return object(gatewayApi, "Gateway", namespace, "web", { spec: { gatewayClassName: "gateway-proxy", listeners } });
}

function largeRoute(index: number) {
  const match = (rule: number, at: number) => ({
    path: { type: "PathPrefix", value: `/${index}/${rule}/${at}` },
    headers: times(2, (header) => ({ type: "Exact", name: `x-${header}`, value: `v${index}` })),
  });
  const rules = times(16, (rule) => ({ matches: times(8, (at) => match(rule, at)) }));
  return object(gatewayApi, "HTTPRoute", "crowd", `r${index}`, { spec: { parentRefs: [{ name: "web" }], rules } });
}

function largeGateway(index: number) {
  const matchExpressions = times(8, (at) => ({ key: `k${at}`, operator: "In", values: [`v${at}`, "w"] }));
  const allowedRoutes = { namespaces: { from: "Selector", selector: { matchExpressions } } };
  const listeners = times(64, (at) => ({
    ...{ name: `l${at}`, port: 80, protocol: "HTTP", hostname: `h${at}-${index}.test`, allowedRoutes },
  }));
  const spec = { gatewayClassName: "gateway-proxy", listeners };
  return object(gatewayApi, "Gateway", "crowd", `r${index}`, { spec });
}

test.each([
  ["routes", 2_000, httpRoutes, largeRoute],
  ["Gateways and ListenerSets", 1_000, gateways, largeGateway],
] as const)(
  "the controller survives the %s of one namespace within the memory of its container",
  {
    timeout: 420_000,
  },
  async (kinds, count, collection, make) => {
    const cgroup = memoryCgroup(containerBytes);
    // Some machines permit no memory limits.
    if (cgroup === undefined) return;
    const api = await startObjectApiServer();
    const spec = { controllerName: "gatewayproxy.dev/controller" };
    api.put(`/apis/${gatewayApi}/gatewayclasses`, object(gatewayApi, "GatewayClass", "", "gateway-proxy", { spec }));
    for (const namespace of ["crowd", "other"]) api.put(gateways, gateway(namespace));
    await putAll(api, collection, count, make);
    const pages = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
    const args = ["--proxy-image", "test/proxy:1", "--namespace", "system", "--identity", "one"];
    const program = [programFile("proxy", "controller"), ...args, "--stats-address", pages[0] ?? ""];
    const child = spawn(
      "sh",
      [
        ...["-c", `echo $$ > ${cgroup.path}/cgroup.procs; exec "$@"`, "sh"],
        ...[process.execPath, ...program, "--readiness-address", pages[1] ?? ""],
      ],
      { env: { ...process.env, KUBECONFIG: api.kubeconfig }, stdio: "ignore" },
    );
    const exited = once(child, "exit");
    onTestFinished(async () => {
      child.kill("SIGKILL");
      await exited;
    });
    const statusOf = (of: string, namespace: string, name: string) =>
      child.exitCode === null && child.signalCode === null
        ? JSON.stringify(api.get(of, namespace, name)?.["status"] ?? "")
        : `ended by ${String(child.signalCode)}`;
    const options = { timeout: 180_000, interval: 500 };
    await expect.poll(() => statusOf(gateways, "other", "web"), options).toMatch(/Programmed|ended/);
    // The last ones have no room, and their status says so.
    const last = `r${count - 1}`;
    await expect
      .poll(() => statusOf(collection, "crowd", last), options)
      .toMatch(new RegExp(`the ${kinds} of namespace crowd take more than|ended`));
    expect(statusOf(collection, "crowd", last)).not.toContain("ended");
  },
);
