/**
 * The services that count the global limits. Where a case compares the proxies it is the bundled rate limit service,
 * the same for all, and its CPU time is not counted; where it compares whole paths each peer has its own service and
 * Redis.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { programFile } from "../support/program-file.ts";
import { unreachedLimit } from "./peers/peer.ts";
import { startOwnProgram } from "./own-program.ts";
import { type RunningProgram } from "./process.ts";
import { type BenchService, startBenchRedis, startService } from "./ratelimit-service/services.ts";

/** One limit per client address, never reached. */
const limits = `
domain: bench
descriptors:
  - key: remote_address
    rate_limit: { unit: hour, requests_per_unit: ${unreachedLimit} }
`;

/** Starts the service on `port`, with its limits in `folder`. It sends no headers: a peer adds its own. */
export function startLimitService(folder: string, port: number): RunningProgram {
  const config = join(folder, "limits");
  mkdirSync(config);
  writeFileSync(join(config, "bench.yaml"), limits);
  const listen = { HOST: "127.0.0.1", GRPC_HOST: "127.0.0.1", GRPC_PORT: String(port), PORT: "0", DEBUG_PORT: "0" };
  const command = [programFile("ratelimit-service", "ratelimit-service"), "--config-dir", config];
  return startOwnProgram("ratelimit-service", command, listen);
}

/** A rate limit service and its Redis, of one peer. */
export interface LimitPath {
  readonly programs: readonly RunningProgram[];
  /** The gRPC port of the service. */
  readonly port: number;
}

/** Starts a Redis and a service on it, and adds both to `running` at once; the limits are in `folder`. */
export async function startLimitPath(
  service: BenchService["name"],
  folder: string,
  running: RunningProgram[],
): Promise<LimitPath> {
  const config = join(folder, "config");
  mkdirSync(config, { recursive: true });
  writeFileSync(join(config, "bench.yaml"), limits);
  const redis = await startBenchRedis();
  running.push(redis.program);
  const { program, grpcPort } = await startService(service, folder, redis.port);
  running.push(program);
  return { programs: [program, redis.program], port: grpcPort };
}
