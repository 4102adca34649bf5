/**
 * The services of a run: ours and the reference with the same environment, on one Redis, each with its own key prefix.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connectRateLimit } from "../../support/rate-limit-client.ts";
import { requireProgram } from "../../support/programs.ts";
import { rateLimitServiceCommand } from "../../support/ratelimit-process.ts";
import { startOwnProgram } from "../own-program.ts";
import { freePorts, type RunningProgram, startProgram, untilReady } from "../process.ts";
import { descriptorOf, limitFile, type ServiceCase } from "./cases.ts";

export interface BenchService {
  readonly name: "reference" | "ours";
  readonly program: RunningProgram;
  readonly grpcPort: number;
}

/** Starts Redis without persistence and resolves with it and its port. */
export async function startBenchRedis(): Promise<{ readonly program: RunningProgram; readonly port: number }> {
  const [port = 0] = await freePorts(1);
  const args = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
  return { program: startProgram("redis", requireProgram("redis-server"), args), port };
}

/** Writes the limits of both services to `folder`. */
export function writeLimits(folder: string): void {
  mkdirSync(join(folder, "config"), { recursive: true });
  writeFileSync(join(folder, "config", "bench.yaml"), limitFile);
}

/** Starts both services on one Redis, the reference first; adds them to `running` at once. */
export async function startServices(
  folder: string,
  redisPort: number,
  running: RunningProgram[],
): Promise<readonly BenchService[]> {
  writeLimits(folder);
  const services: BenchService[] = [];
  for (const name of ["reference", "ours"] as const) {
    const service = await startService(name, folder, redisPort);
    running.push(service.program);
    services.push(service);
  }
  return services;
}

/** The ports of a service on loopback. */
export interface ServicePorts {
  readonly grpcPort: number;
  readonly httpPort: number;
  readonly debugPort: number;
}

/** The settings of a service on `folder/config`, with an over-limit cache. */
export function serviceEnvironment(
  name: BenchService["name"],
  folder: string,
  redisPort: number,
  { grpcPort, httpPort, debugPort }: ServicePorts,
): Readonly<Record<string, string>> {
  return {
    HOST: "127.0.0.1",
    GRPC_HOST: "127.0.0.1",
    DEBUG_HOST: "127.0.0.1",
    PORT: String(httpPort),
    GRPC_PORT: String(grpcPort),
    DEBUG_PORT: String(debugPort),
    REDIS_SOCKET_TYPE: "tcp",
    REDIS_URL: `127.0.0.1:${redisPort}`,
    CACHE_KEY_PREFIX: `${name}-`,
    LOCAL_CACHE_SIZE_IN_BYTES: "1000000",
    RUNTIME_ROOT: folder,
    RUNTIME_SUBDIRECTORY: "",
    RUNTIME_WATCH_ROOT: "false",
    LOG_LEVEL: "error",
    // The reference is fastest without statistics. Ours counts, as it does by default.
    ...(name === "reference" ? { USE_STATSD: "false", DISABLE_STATS: "true" } : {}),
  };
}

/** Starts one service. */
export async function startService(
  name: BenchService["name"],
  folder: string,
  redisPort: number,
): Promise<BenchService> {
  const [grpcPort = 0, httpPort = 0, debugPort = 0] = await freePorts(3);
  const env = serviceEnvironment(name, folder, redisPort, { grpcPort, httpPort, debugPort });
  const program =
    name === "ours"
      ? startOwnProgram(name, rateLimitServiceCommand(), env)
      : startProgram(name, requireProgram("ratelimit"), [], env);
  return { name, program, grpcPort };
}

/**
 * Waits until the service responds to every call of the case as expected; to a denied one, from its over-limit cache.
 */
export async function untilResponds(service: BenchService, serviceCase: ServiceCase): Promise<void> {
  const expected = serviceCase.kind === "counted" ? "OK" : "OVER_LIMIT";
  await untilReady(service.program, async () => {
    const client = connectRateLimit(service.grpcPort);
    try {
      for (let index = 0; index < serviceCase.keys; index++) {
        const call = { domain: "bench", descriptors: [{ entries: [descriptorOf(serviceCase, index)] }] };
        const { overallCode, statuses } = await client.send(call);
        if (overallCode !== expected || statuses[0]?.currentLimit == null) {
          throw new Error(`${service.name} responds with ${overallCode}, expected is ${expected} by a limit`);
        }
      }
    } finally {
      client.close();
    }
  });
}

/** Versions of the programs, for the page. */
export function serviceVersions(): readonly string[] {
  const first = (command: string, args: readonly string[], pattern: RegExp): string =>
    pattern.exec(execFileSync(command, args, { encoding: "utf8" }))?.[1] ?? "unknown";
  return [
    `envoyproxy/ratelimit ${referenceVersion()}`,
    `Node ${process.version}`,
    `Redis ${first(requireProgram("redis-server"), ["--version"], /v=(\S+)/)}`,
    `h2load ${first(requireProgram("h2load"), ["--version"], /nghttp2\/(\S+)/)}`,
  ];
}

/** The version that the Go tool finds in the binary; unknown without Go. */
function referenceVersion(): string {
  try {
    const text = execFileSync(requireProgram("go"), ["version", "-m", requireProgram("ratelimit")], {
      encoding: "utf8",
    });
    return /\tmod\t\S+\t(\S+)/.exec(text)?.[1] ?? "unknown";
  } catch {
    return "unknown";
  }
}
