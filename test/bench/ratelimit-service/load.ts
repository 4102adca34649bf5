/** Puts calls on a rate limit service with h2load, and reads h2load's results. */
import { execFile } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { RateLimitRequest } from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitRequest";
import { loadProtos, messageOf } from "@gatewayproxy/protos/load";
import { requireProgram } from "../../support/programs.ts";
import { type LoadResult, parseH2load } from "../load.ts";
import { percentile } from "../statistics.ts";
import { descriptorOf, type ServiceCase } from "./cases.ts";

const run = promisify(execFile);

const request = messageOf<RateLimitRequest, object>(
  loadProtos("envoy/service/ratelimit/v3/rls.proto"),
  "envoy.service.ratelimit.v3.RateLimitRequest",
);

/** How long and how much one load is. */
export interface CallLoad {
  readonly seconds: number;
  /** Of all connections together. Default: as many as the service decides. */
  readonly callsPerSecond?: number;
  /** Has the files of the generators. */
  readonly folder: string;
}

/** Loads the service on `port`; one generator for each key. */
export async function applyCalls(serviceCase: ServiceCase, port: number, load: CallLoad): Promise<LoadResult> {
  const indexes = Array.from({ length: serviceCase.keys }, (_, index) => index);
  const results = await Promise.all(indexes.map((index) => generate(serviceCase, index, port, load)));
  return {
    requests: results.reduce((sum, { requests }) => sum + requests, 0),
    seconds: load.seconds,
    p50Ms: percentile(
      results.map(({ p50Ms }) => p50Ms),
      50,
    ),
    p99Ms: Math.max(...results.map(({ p99Ms }) => p99Ms)),
    p999Ms: Math.max(...results.map(({ p999Ms }) => p999Ms)),
  };
}

async function generate(serviceCase: ServiceCase, index: number, port: number, load: CallLoad): Promise<LoadResult> {
  const { seconds, callsPerSecond, folder } = load;
  const body = join(folder, `call-${index}.bin`);
  const log = join(folder, `h2load-${index}.log`);
  writeFileSync(body, framed(serviceCase, index));
  rmSync(log, { force: true });
  const { connections, streams, keys } = serviceCase;
  // Of each connection.
  const pace = callsPerSecond === undefined ? [] : [`--rps=${callsPerSecond / connections}`];
  const args = [
    ...["-t1", `-c${connections / keys}`, `-m${streams}`, `-D${seconds}`, `--log-file=${log}`, `-d${body}`],
    ...pace,
    ...["-Hcontent-type: application/grpc", "-Hte: trailers"],
    `http://127.0.0.1:${port}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`,
  ];
  const { stdout } = await run(requireProgram("h2load"), args);
  return parseH2load(stdout, readFileSync(log, "utf8"), seconds);
}

/** A whole gRPC message: flag, length, RateLimitRequest. */
function framed(serviceCase: ServiceCase, index: number): Buffer {
  const descriptors = [{ entries: [descriptorOf(serviceCase, index)] }];
  const message = request.serialize({ domain: "bench", descriptors });
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}
