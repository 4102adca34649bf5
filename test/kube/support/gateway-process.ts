/** A proxy for one Gateway of a cluster, as in a pod, as a process of this machine. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { freePort } from "../../support/free-port.ts";
import { programFile } from "../../support/program-file.ts";

const mainFile = programFile("proxy", "proxy");

export interface GatewayProcess {
  /** `http://127.0.0.1:PORT/healthz/ready`. */
  readonly readiness: string;
  stop(): Promise<void>;
}

/** Starts a proxy for `gateway`, as `namespace/name`; does not wait until it is ready. */
export async function startGatewayProcess(
  kubeconfig: string,
  gateway: string,
  more: readonly string[] = [],
): Promise<GatewayProcess> {
  const [stats, readiness] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
  const pages = ["--stats-address", stats, "--readiness-address", readiness, "--admin-address", "127.0.0.1:0"];
  const args = [mainFile, "--kubernetes", "--gateway", gateway, "--workers", "1", "--listen-address", "127.0.0.1"];
  const child = spawn(process.execPath, [...args, ...pages, ...more], {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, KUBECONFIG: kubeconfig },
  });
  const exited = once(child, "exit");
  return {
    readiness: `http://${readiness}/healthz/ready`,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL");
      await exited;
    },
  };
}

/** The status of a GET for a host name at a port of this machine. */
export function getStatus(port: number, host: string, path = "/"): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", port, path, headers: { host }, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on("error", reject);
    sent.end();
  });
}
