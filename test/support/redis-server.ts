/** Redis servers for tests: started on free ports without persistence, stopped by their own process id. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";
import { createClient } from "@redis/client";
import { freePort } from "./free-port.ts";
import { stopProcess } from "./stop-process.ts";

export interface RedisServer {
  readonly host: "127.0.0.1";
  readonly port: number;
  /** Stops responding without closing a connection, and resumes. */
  readonly pause: () => void;
  readonly resume: () => void;
  /** Kills it, with the loss of all data; `start` starts an empty one on the same port. */
  readonly kill: () => Promise<void>;
  readonly start: () => Promise<void>;
  /** Sends one command on a new connection. */
  readonly command: (...words: readonly string[]) => Promise<unknown>;
  readonly close: () => Promise<void>;
}

/**
 * Starts `binary` and resolves when it accepts connections.
 *
 * @param args further options of redis-server
 * @param config a configuration file, which a sentinel needs and writes to; other servers have none
 */
export async function startRedis(binary: string, args: readonly string[] = [], config?: string): Promise<RedisServer> {
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), "redis-"));
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const options = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, ...args];
    const kept = config === undefined ? ["--save", "", "--appendonly", "no"] : [];
    const files = config === undefined ? [] : [config];
    const started = spawn(binary, [...files, ...options, ...kept], { stdio: ["ignore", "pipe", "ignore"] });
    child = started;
    await new Promise<void>((resolve, reject) => {
      started.once("exit", (code) => reject(new Error(`${binary} ended with status ${String(code)}`)));
      createInterface({ input: started.stdout }).on("line", (line) => {
        if (/ready to accept connections|Sentinel ID is/i.test(line)) resolve();
      });
    });
  }

  async function kill(): Promise<void> {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }

  await start();
  return {
    host: "127.0.0.1",
    port,
    pause: () => stopProcess(child),
    resume: () => child?.kill("SIGCONT"),
    kill,
    start,
    command: (...words) => commandOn(port, words),
    close: async () => {
      await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Starts three masters that share the slots of a cluster, without replicas, and resolves when each knows the others.
 */
export async function startRedisCluster(binary: string): Promise<readonly RedisServer[]> {
  const busPorts = await Promise.all([freePort(), freePort(), freePort()]);
  const nodes = await Promise.all(
    busPorts.map((busPort) =>
      startRedis(binary, ["--cluster-enabled", "yes", "--cluster-port", String(busPort), ...clusterOptions]),
    ),
  );
  const slots = [0, 5_461, 10_923, 16_384];
  for (const [i, node] of nodes.entries()) {
    await node.command("CLUSTER", "ADDSLOTSRANGE", String(slots[i]), String((slots[i + 1] ?? 0) - 1));
    for (const [j, other] of nodes.entries()) {
      if (j > i) await node.command("CLUSTER", "MEET", other.host, String(other.port), String(busPorts[j]));
    }
  }
  await Promise.all(nodes.map((node) => untilClusterIsWell(node)));
  return nodes;
}

/** Slots whose node is unavailable do not make the others unavailable. */
const clusterOptions = ["--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no"];

async function untilClusterIsWell(node: RedisServer): Promise<void> {
  for (;;) {
    const info = String(await node.command("CLUSTER", "INFO"));
    const slots = String(await node.command("CLUSTER", "SLOTS"));
    if (
      info.includes("cluster_state:ok") &&
      info.includes("cluster_slots_ok:16384") &&
      slots.split("127.0.0.1").length === 4
    ) {
      return;
    }
    await setTimeout(20);
  }
}

async function commandOn(port: number, words: readonly string[]): Promise<unknown> {
  const client = await createClient({
    socket: { host: "127.0.0.1", port, reconnectStrategy: false },
    RESP: 2,
  }).connect();
  try {
    return await client.sendCommand([...words]);
  } finally {
    client.destroy();
  }
}
