/**
 * The rate limit service in the process of the test: configured by its environment, on free ports, started in
 * milliseconds.
 */
import { type Clock, systemClock, type Timer } from "@gatewayproxy/runtime/clock";
import { renderProblem } from "@gatewayproxy/runtime/problem";
import { createLogs } from "../../ratelimit-service/src/app/logs.ts";
import { RateLimitProcess } from "../../ratelimit-service/src/app/ratelimit-process.ts";
import { readServiceSettings } from "../../ratelimit-service/src/settings.ts";
import { onTestFinished } from "vitest";
import { connectRateLimit, type RateLimitTestClient } from "./rate-limit-client.ts";
import type { Environment } from "./ratelimit-process.ts";

/** Timers are real. The time of day changes only by `advance`, so windows end only by it. */
export class FixedClock implements Clock {
  /** Of every timer that was set. */
  readonly delaysMs: number[] = [];
  #wallMs: number;

  constructor(wallMs = 1_700_000_022_000) {
    this.#wallMs = wallMs;
  }

  nowMs(): number {
    return this.#wallMs;
  }

  monotonicMs(): number {
    return systemClock.monotonicMs();
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    this.delaysMs.push(delayMs);
    return systemClock.setTimer(delayMs, callback);
  }

  every(periodMs: number, callback: () => void): Timer {
    return systemClock.every(periodMs, callback);
  }

  advance(ms: number): void {
    this.#wallMs += ms;
  }
}

export interface InProcessService {
  /** The port of gRPC without TLS; 0 if the service listens on a Unix socket. */
  readonly grpcPort: number;
  readonly http: string;
  readonly debug: string;
  readonly client: RateLimitTestClient;
  /** Lines of the log so far, as JSON. */
  readonly output: readonly string[];
  /** The page `/stats` of the debug port: each counter and gauge by its name. */
  readonly stats: () => Promise<ReadonlyMap<string, number>>;
  readonly stop: () => Promise<void>;
}

export interface InProcessOptions {
  readonly clock?: Clock;
  /** 0 ≤ x < 1. */
  readonly random?: () => number;
}

/**
 * Starts the service with the reference's defaults, and stops it with the test. Rejects with the error of the service
 * if it cannot start.
 */
export async function startInProcess(
  env: Environment,
  { clock = systemClock, random = Math.random }: InProcessOptions = {},
): Promise<InProcessService> {
  const local = { HOST: "127.0.0.1", GRPC_HOST: "127.0.0.1", DEBUG_HOST: "127.0.0.1" };
  const ports = { PORT: "0", GRPC_PORT: "0", DEBUG_PORT: "0" };
  const quiet = { USE_STATSD: "false", SHUTDOWN_DRAIN_DELAY: "0", RUNTIME_WATCH_ROOT: "false" };
  const all = { ...local, ...ports, ...quiet, LOG_FORMAT: "json", ...env };
  const read = await readServiceSettings({ argv: [], env: all }, "reference");
  if (!read.ok) throw new Error(read.problems.map(renderProblem).join("\n"));
  const { value: settings } = read;
  const output: string[] = [];
  const logs = createLogs({ filter: settings.values.logLevel, format: settings.values.logFormat }, clock, {
    write: (line) => output.push(line),
  });
  const started = await RateLimitProcess.start({
    ...{ settings, logs, clock, random },
    exportedLines: undefined,
    onExportProblem: (problem) => output.push(`export: ${problem}`),
    onFatal: (error) => output.push(`fatal: ${String(error)}`),
  });
  if (!started.ok) throw new Error(started.problems.map(renderProblem).join("\n"));
  const { grpc, http, debug } = started.value.addresses;
  const grpcPort = typeof grpc === "number" ? grpc : 0;
  const client = connectRateLimit(grpcPort);
  let stopped: Promise<unknown> | undefined;
  const stop = async (): Promise<void> => {
    client.close();
    stopped ??= started.value.stop();
    await stopped;
  };
  onTestFinished(stop);
  return {
    ...{ grpcPort, client, output, stop },
    ...{ http: `http://127.0.0.1:${http}`, debug: `http://127.0.0.1:${debug}` },
    stats: async () => statsOf(await (await fetch(`http://127.0.0.1:${debug}/stats`)).text()),
  };
}

function statsOf(text: string): ReadonlyMap<string, number> {
  const lines = text.split("\n").map((line) => /^(.*): (-?[\d.]+)$/.exec(line));
  return new Map(lines.flatMap((found) => (found === null ? [] : [[found[1] ?? "", Number(found[2])] as const])));
}
