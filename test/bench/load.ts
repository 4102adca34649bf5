/**
 * Puts load on one listener and reads the results of the load generator: wrk for HTTP/1.1, h2load for HTTP/2, and
 * `websocket-load.ts` for WebSocket. A response other than 2xx or a broken connection is an error, never a fast
 * request.
 */
import { execFile } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { requireProgram } from "../support/programs.ts";
import { type BenchCase, keyHeader } from "./cases.ts";
import { percentile } from "./statistics.ts";

/** The results of the load generator. */
export interface LoadResult {
  readonly requests: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
}

const run = promisify(execFile);

/** Loads the listener on `port` for `seconds`; the files of the generator are in `folder`. */
export async function applyLoad(
  benchCase: BenchCase,
  port: number,
  seconds: number,
  folder: string,
): Promise<LoadResult> {
  const url = `${benchCase.listener === "tls" ? "https" : "http"}://127.0.0.1:${port}${benchCase.path}`;
  switch (benchCase.load) {
    case "wrk":
      return runWrk(benchCase, url, seconds, folder);
    case "h2load":
      return runH2load(benchCase, url, seconds, folder);
    case "websocket":
      return runWebSocket(benchCase, url, seconds);
  }
}

async function runWrk(benchCase: BenchCase, url: string, seconds: number, folder: string): Promise<LoadResult> {
  const script = join(folder, "request.lua");
  writeFileSync(script, wrkScript(benchCase));
  const args = ["-t1", `-c${benchCase.connections}`, `-d${seconds}s`, "--timeout", "30s", "-s", script, url];
  const { stdout } = await run(requireProgram("wrk"), args);
  return parseWrk(stdout);
}

/** Sets the request once and prints wrk's own counts in a form without units. */
function wrkScript({ method, headers, body, bodyBytes, keys }: BenchCase): string {
  const quote = (text: string): string => JSON.stringify(text);
  return [
    `wrk.method = ${quote(method)}`,
    ...(body === undefined ? [] : [`wrk.body = ${quote(body)}`]),
    ...Object.entries(headers).map(([name, value]) => `wrk.headers[${quote(name)}] = ${quote(value)}`),
    ...(bodyBytes === undefined ? [] : [`wrk.body = string.rep("x", ${bodyBytes})`]),
    ...(keys === undefined ? [] : [keyScript(keys)]),
    `function done(summary, latency)
  local errors = summary.errors
  io.write(string.format("result %d %d %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9), errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end`,
  ].join("\n");
}

/** Sends another key with each request, so that a key comes again after all others. */
function keyScript(keys: number): string {
  return `local number = 0
function request()
  number = (number + 1) % ${keys}
  wrk.headers["${keyHeader}"] = "user-" .. number
  return wrk.format()
end`;
}

/** Reads the line that the script prints: counts, and microseconds. */
export function parseWrk(output: string): LoadResult {
  const fields = /^result ([\d ]+)$/m.exec(output)?.[1]?.split(" ").map(Number) ?? [];
  const [requests = 0, durationUs = 0, p50Us = 0, p99Us = 0, p999Us = 0, failedResponses = 0, brokenConnections = 0] =
    fields;
  if (requests === 0 || failedResponses > 0 || brokenConnections > 0) {
    throw new Error(
      `wrk got ${failedResponses} failed responses and ${brokenConnections} broken connections:\n${output}`,
    );
  }
  return {
    requests,
    seconds: durationUs / 1e6,
    p50Ms: p50Us / 1_000,
    p99Ms: p99Us / 1_000,
    p999Ms: p999Us / 1_000,
  };
}

async function runWebSocket({ connections }: BenchCase, url: string, seconds: number): Promise<LoadResult> {
  const program = join(import.meta.dirname, "websocket-load.ts");
  const args = [program, url.replace("http", "ws"), String(connections), String(seconds)];
  const { stdout } = await run(process.execPath, args);
  return parseWrk(stdout);
}

async function runH2load(benchCase: BenchCase, url: string, seconds: number, folder: string): Promise<LoadResult> {
  const log = join(folder, "h2load.log");
  rmSync(log, { force: true });
  const args = [
    ...["-t1", `-c${benchCase.connections}`, `-m${benchCase.streams}`, `-D${seconds}`, `--log-file=${log}`],
    ...Object.entries(benchCase.headers).map(([name, value]) => `-H${name}: ${value}`),
    url,
  ];
  const { stdout } = await run(requireProgram("h2load"), args);
  return parseH2load(stdout, readFileSync(log, "utf8"), seconds);
}

/** Reads h2load's summary, and its log of one request a line: start in µs, status, duration in µs. */
export function parseH2load(output: string, log: string, seconds: number): LoadResult {
  const [, good, bad] = /^status codes: (\d+) 2xx, (\d+ 3xx, \d+ 4xx, \d+ 5xx)$/m.exec(output) ?? [];
  const [, failed, errored] = /(\d+) failed, (\d+) errored/.exec(output) ?? [];
  const requests = Number(good ?? 0);
  if (requests === 0 || bad !== "0 3xx, 0 4xx, 0 5xx" || failed !== "0" || errored !== "0") {
    throw new Error(`h2load got failed responses or broken connections:\n${output}`);
  }
  const durations = log
    .trimEnd()
    .split("\n")
    .map((line) => Number(line.split("\t")[2]));
  const [p50Ms = 0, p99Ms = 0, p999Ms = 0] = [50, 99, 99.9].map((percent) => percentile(durations, percent) / 1_000);
  return { requests, seconds, p50Ms, p99Ms, p999Ms };
}
