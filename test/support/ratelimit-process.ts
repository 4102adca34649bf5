/**
 * Rate limit services as processes: ours as users run it, and the reference, with the same folder of limits and the
 * same environment. Everything listens on free ports of 127.0.0.1.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { compiledVariable, programFile } from "./program-file.ts";
import { freePort } from "./free-port.ts";

const repository = fileURLToPath(new URL("../..", import.meta.url));

/** Flags of Node and the file, as `npm run ratelimit-service` starts it, without the options after it. */
export function rateLimitServiceCommand(): readonly string[] {
  const manifest = JSON.parse(readFileSync(join(repository, "package.json"), "utf8")) as {
    readonly scripts: Readonly<Record<string, string>>;
  };
  const [, flags = ""] = /^node (.*?)(\S+main\.ts)/.exec(manifest.scripts["ratelimit-service"] ?? "") ?? [];
  return [...flags.split(" ").filter(Boolean), programFile("ratelimit-service", "ratelimit-service")];
}

export interface RateLimitService {
  readonly child: ChildProcess;
  readonly grpcPort: number;
  /** `http://127.0.0.1:PORT` of the HTTP port and of the debug port. */
  readonly http: string;
  readonly debug: string;
  /** Lines of its output so far. */
  readonly output: readonly string[];
  /** Kills it. */
  kill(): Promise<void>;
}

export type Environment = Readonly<Record<string, string>>;

/**
 * Starts our service, or another of our programs; its settings are only the given ones.
 *
 * @param openFiles its limit of open files; absent: that of this process.
 */
export function spawnRateLimitService(
  args: readonly string[],
  env: Environment,
  command: readonly string[] = rateLimitServiceCommand(),
  openFiles?: number,
): ChildProcess {
  const compiled = process.env[compiledVariable];
  const limiting = openFiles === undefined ? [] : ["/bin/sh", "-c", `ulimit -n ${openFiles} && exec "$0" "$@"`];
  const [program = "", ...parameters] = [...limiting, process.execPath, ...command, ...args];
  return spawn(program, parameters, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...(compiled !== undefined && { [compiledVariable]: compiled }), ...env },
  });
}

/**
 * Starts our service and resolves when it logs that it is ready; rejects with its output if it ends before.
 *
 * @param configDirectory absent if its limits come from elsewhere
 * @param openFiles as for `spawnRateLimitService`.
 */
export async function startRateLimitService(
  configDirectory: string | undefined,
  env: Environment = {},
  args: readonly string[] = [],
  command: readonly string[] = rateLimitServiceCommand(),
  openFiles?: number,
): Promise<RateLimitService> {
  const listen = { HOST: "127.0.0.1", GRPC_HOST: "127.0.0.1", PORT: "0", GRPC_PORT: "0", DEBUG_PORT: "0" };
  const files = configDirectory === undefined ? [] : ["--config-dir", configDirectory];
  const settings = { ...listen, LOG_FORMAT: "json", LOG_LEVEL: "info", SHUTDOWN_DRAIN_DELAY: "0", ...env };
  const child = spawnRateLimitService([...files, ...args], settings, command, openFiles);
  const output = linesOf(child);
  for (;;) {
    const ready = output.find((line) => line.includes('"msg":"ready"'));
    if (ready !== undefined) {
      const { grpc, http, debug } = JSON.parse(ready) as { grpc: number; http: number; debug: number };
      const url = (port: number) => `http://127.0.0.1:${port}`;
      return { child, output, grpcPort: grpc, http: url(http), debug: url(debug), kill: () => kill(child) };
    }
    if (child.exitCode !== null) throw new Error(`the service ended: ${output.join("\n")}`);
    await sleep(10);
  }
}

/** Starts the reference at `binary` and resolves when it accepts connections. */
export async function startReference(
  binary: string,
  runtimeRoot: string,
  env: Environment = {},
): Promise<RateLimitService> {
  const [grpcPort, httpPort, debugPort] = [await freePort(), await freePort(), await freePort()];
  const child = spawn(binary, [], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      HOST: "127.0.0.1",
      GRPC_HOST: "127.0.0.1",
      DEBUG_HOST: "127.0.0.1",
      PORT: String(httpPort),
      GRPC_PORT: String(grpcPort),
      DEBUG_PORT: String(debugPort),
      USE_STATSD: "false",
      LOG_LEVEL: "error",
      REDIS_SOCKET_TYPE: "tcp",
      RUNTIME_ROOT: runtimeRoot,
      RUNTIME_SUBDIRECTORY: "",
      RUNTIME_WATCH_ROOT: "false",
      ...env,
    },
  });
  const output = linesOf(child);
  while (!(await acceptsConnections(grpcPort))) {
    if (child.exitCode !== null) throw new Error(`the reference ended: ${output.join("\n")}`);
    await sleep(20);
  }
  return {
    child,
    output,
    grpcPort,
    http: `http://127.0.0.1:${httpPort}`,
    debug: `http://127.0.0.1:${debugPort}`,
    kill: () => kill(child),
  };
}

function linesOf(child: ChildProcess): string[] {
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    if (stream !== null) createInterface(stream).on("line", (line) => lines.push(line));
  }
  return lines;
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

function acceptsConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}
