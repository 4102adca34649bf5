/** The controller as a process against a cluster, on free ports; stopped when the test or the suite ends. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { freePort } from "../../support/free-port.ts";
import { programFile } from "../../support/program-file.ts";

const mainFile = programFile("proxy", "controller");

export interface ControllerProcess {
  readonly identity: string;
  /** `http://127.0.0.1:PORT/metrics`. */
  readonly metrics: string;
  /** Lines of its log so far. */
  readonly log: readonly Readonly<Record<string, unknown>>[];
  /** Ends it; TERM releases the lease for another replica, KILL does not. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

export interface ControllerSetup {
  readonly kubeconfig: string;
  /** The namespace of the Lease; controllers with one namespace are replicas of each other. */
  readonly namespace: string;
  readonly identity?: string;
  readonly args?: readonly string[];
}

/** Starts a controller; does not wait until it is ready. */
export async function startController(setup: ControllerSetup): Promise<ControllerProcess> {
  const { kubeconfig, namespace, identity = "one", args = [] } = setup;
  const [stats, readiness] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
  const settings = ["--stats-address", stats, "--readiness-address", readiness, "--proxy-image", "test/proxy:1"];
  const child = spawn(
    process.execPath,
    [mainFile, ...settings, "--identity", identity, "--namespace", namespace, ...args],
    { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, KUBECONFIG: kubeconfig } },
  );
  const log: Readonly<Record<string, unknown>>[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => {
    log.push(JSON.parse(line) as Readonly<Record<string, unknown>>);
  });
  const exited = once(child, "exit");
  return {
    identity,
    metrics: `http://${stats}/metrics`,
    log,
    async stop(signal = "SIGTERM") {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill(signal);
      await exited;
    },
  };
}
