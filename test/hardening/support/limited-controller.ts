/** A controller with the memory of its container by the chart's defaults, which takes care of another namespace. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { onTestFinished } from "vitest";
import { gatewayApi } from "../../support/api-versions.ts";
import { freePort } from "../../support/free-port.ts";
import { memoryCgroup } from "../../support/memory-cgroup.ts";
import { type ObjectApiServer, startObjectApiServer } from "../../support/object-api-server.ts";
import { programFile } from "../../support/program-file.ts";
import { object } from "./bystander.ts";

const containerBytes = 512 * 1024 * 1024;

export const gateways = `/apis/${gatewayApi}/gateways`;
export const httpRoutes = `/apis/${gatewayApi}/httproutes`;

export interface LimitedController {
  /** The signal or exit code with which it has ended; undefined while it runs. */
  readonly end: () => string | undefined;
}

/** A Gateway with one listener. */
export function smallGateway(namespace: string, name: string) {
  const listeners = [{ name: "http", port: 80, protocol: "HTTP" }];
  return object(gatewayApi, "Gateway", namespace, name, { spec: { gatewayClassName: "gateway-proxy", listeners } });
}

/**
 * Starts an API server with a GatewayClass and the Gateway `other/web`, and then the controller.
 *
 * @param fill adds the objects that the controller reads when it starts.
 * @returns undefined on a machine that permits no memory limits.
 */
export async function startLimitedController(
  fill: (api: ObjectApiServer) => Promise<void>,
): Promise<{ readonly api: ObjectApiServer; readonly controller: LimitedController } | undefined> {
  const cgroup = memoryCgroup(containerBytes);
  if (cgroup === undefined) return undefined;
  const api = await startObjectApiServer();
  const spec = { controllerName: "gatewayproxy.dev/controller" };
  api.put(`/apis/${gatewayApi}/gatewayclasses`, object(gatewayApi, "GatewayClass", "", "gateway-proxy", { spec }));
  api.put(gateways, smallGateway("other", "web"));
  await fill(api);
  const [stats, readiness] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
  const args = ["--proxy-image", "test/proxy:1", "--namespace", "system", "--identity", "one"];
  const addresses = ["--stats-address", stats, "--readiness-address", readiness];
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
  return { api, controller: { end: () => child.signalCode ?? child.exitCode?.toString() } };
}
