/**
 * What counts the global limits of every peer: our own rate limit service, the same for all, so that a case compares the
 * proxies. Its CPU time is nobody's.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { unreachedLimit } from "./peers/peer.ts";
import { type RunningProgram, startProgram } from "./process.ts";

const mainFile = join(import.meta.dirname, "../../ratelimit-service/src/main.ts");

/** One limit per client address, never reached. */
const limits = `
domain: bench
descriptors:
  - key: remote_address
    rate_limit: { unit: hour, requests_per_unit: ${unreachedLimit} }
`;

/** Starts the service on `port`; `folder` takes its limits. It sends no headers: a peer makes its own. */
export function startLimitService(folder: string, port: number): RunningProgram {
  const config = join(folder, "limits");
  mkdirSync(config);
  writeFileSync(join(config, "bench.yaml"), limits);
  const listen = { HOST: "127.0.0.1", GRPC_HOST: "127.0.0.1", GRPC_PORT: String(port), PORT: "0", DEBUG_PORT: "0" };
  return startProgram("ratelimit-service", process.execPath, [mainFile, "--config-dir", config], listen);
}
