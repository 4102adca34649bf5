/**
 * Clients that send at a constant rate: a late response delays no other request, and nothing is retried. HTTP/1.1 with
 * kept connections, or HTTP/2 on a few.
 */
import { Agent, type ClientRequest, request as requestHttp1 } from "node:http";
import { type ClientHttp2Session, connect as connectHttp2, constants } from "node:http2";
import { connect, type Socket } from "node:net";
import { percentile } from "../../bench/statistics.ts";

export interface LoadOptions {
  /** The port of 127.0.0.1 that a new connection goes to. */
  readonly port: () => number;
  readonly protocol?: "http1" | "http2";
  /** Requests a second. Default 300. */
  readonly perSecond?: number;
  readonly path?: (number: number) => string;
  readonly headers?: (number: number) => Readonly<Record<string, string>>;
  /** The timeout of a client. Default 20 s. */
  readonly timeoutMs?: number;
}

/** One request that has ended. */
export interface Outcome {
  /** Its index in the order of starts, from 0. */
  readonly number: number;
  /** `performance.now()` */
  readonly startedMs: number;
  readonly tookMs: number;
  /** `200`, the status and text of an error, or how the connection failed: `ECONNRESET`, `body cut off`. */
  readonly kind: string;
  readonly status: number;
}

export interface Load {
  readonly outcomes: readonly Outcome[];
  /** Requests started. */
  readonly started: number;
  /** Resolves when this number of further requests have ended. */
  after(count: number): Promise<void>;
  /** Starts no more requests, and resolves when all have ended. */
  stop(): Promise<readonly Outcome[]>;
}

const tickMs = 10;
/** The maximum of requests that start at once after a stall of this process or the machine; the others are skipped. */
const maxPerTick = 10;
/** Requests in progress at which no more are started, so that a stall does not become a flood. */
const maxInProgress = 400;
/** HTTP/2 connections; each carries many requests. */
const sessions = 8;
/** The maximum of kept HTTP/1.1 connections. */
const keptConnections = 64;

const unprocessedStream = "REFUSED_STREAM";

type Send = (path: string, headers: Readonly<Record<string, string>>) => Promise<Pick<Outcome, "kind" | "status">>;

/** Starts to send at once. */
export function startLoad(options: LoadOptions): Load {
  const { protocol = "http1", perSecond = 300, path = () => "/", headers = () => ({}), timeoutMs = 20_000 } = options;
  const client = protocol === "http1" ? http1Client(options.port, timeoutMs) : http2Client(options.port, timeoutMs);
  const outcomes: Outcome[] = [];
  const waiting = new Set<() => void>();
  let started = 0;
  /** When the next request is due. */
  let dueMs = performance.now();
  let onEnd: (() => void) | undefined;

  function startOne(): void {
    const number = started++;
    const startedMs = performance.now();
    void client.send(path(number), headers(number)).then(({ kind, status }) => {
      outcomes.push({ number, startedMs, tookMs: performance.now() - startedMs, kind, status });
      for (const check of waiting) check();
      if (outcomes.length === started) onEnd?.();
    });
  }

  const timer = setInterval(() => {
    const nowMs = performance.now();
    for (let count = 0; count < maxPerTick && dueMs <= nowMs; count++) {
      if (started - outcomes.length < maxInProgress) startOne();
      dueMs += 1_000 / perSecond;
    }
    dueMs = Math.max(dueMs, nowMs - tickMs);
  }, tickMs);
  return {
    outcomes,
    get started() {
      return started;
    },
    after(count) {
      const awaited = outcomes.length + count;
      return new Promise((resolve) => {
        const check = (): void => {
          if (outcomes.length < awaited) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
      });
    },
    async stop() {
      clearInterval(timer);
      if (outcomes.length < started) await new Promise<void>((resolve) => (onEnd = resolve));
      client.close();
      return outcomes;
    },
  };
}

interface Client {
  readonly send: Send;
  close(): void;
}

function http1Client(port: () => number, timeoutMs: number): Client {
  const agent = new Agent({ keepAlive: true, maxFreeSockets: keptConnections, scheduling: "fifo" });
  agent.createConnection = (): Socket => connect({ host: "127.0.0.1", port: port(), noDelay: true });
  const send: Send = (path, headers) =>
    new Promise((resolve) => {
      const sent: ClientRequest = requestHttp1({ agent, host: "127.0.0.1", path, headers }, (response) => {
        const status = response.statusCode ?? 0;
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () => end({ kind: kindOf(status, chunks), status }));
        response.on("error", () => end({ kind: `${status}, body cut off`, status }));
      });
      const timeout = setTimeout(() => sent.destroy(new Error(noResponse(timeoutMs))), timeoutMs);
      const end = (outcome: Pick<Outcome, "kind" | "status">): void => {
        clearTimeout(timeout);
        resolve(outcome);
      };
      sent.on("error", (error: NodeJS.ErrnoException) => end({ kind: error.code ?? error.message, status: 0 }));
      sent.end();
    });
  return { send, close: () => agent.destroy() };
}

function http2Client(port: () => number, timeoutMs: number): Client {
  const open = new Map<number, ClientHttp2Session>();
  let next = 0;
  function session(): ClientHttp2Session {
    const at = next++ % sessions;
    const kept = open.get(at);
    if (kept !== undefined && !kept.closed && !kept.destroyed) return kept;
    const made = connectHttp2("http://127.0.0.1", {
      createConnection: () => connect({ host: "127.0.0.1", port: port(), noDelay: true }),
    });
    made.on("error", () => undefined);
    open.set(at, made);
    return made;
  }
  const send: Send = async (path, headers) => {
    // Never processed, by definition (RFC 9113 §8.7); every client repeats such a request itself.
    for (let tries = 0; tries < 5; tries++) {
      const outcome = await sendOnce(path, headers);
      if (outcome.kind !== unprocessedStream) return outcome;
    }
    return { kind: unprocessedStream, status: 0 };
  };
  const sendOnce: Send = (path, headers) =>
    new Promise((resolve) => {
      const stream = session().request({ ":path": path, ...headers });
      const chunks: Buffer[] = [];
      let status = 0;
      let failure: string | undefined;
      const timeout = setTimeout(() => stream.destroy(new Error(noResponse(timeoutMs))), timeoutMs);
      stream.on("response", (head) => (status = head[":status"] ?? 0));
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("error", (error: NodeJS.ErrnoException) => (failure = error.code ?? error.message));
      stream.on("close", () => {
        clearTimeout(timeout);
        if (stream.rstCode === constants.NGHTTP2_REFUSED_STREAM) failure = unprocessedStream;
        else if (failure === undefined && status === 0) failure = `reset with ${stream.rstCode}`;
        else if (failure === undefined && !stream.readableEnded) failure = `${status}, body cut off`;
        resolve({ kind: failure ?? kindOf(status, chunks), status });
      });
      stream.end();
    });
  return {
    send,
    close() {
      for (const made of open.values()) made.destroy();
    },
  };
}

function noResponse(timeoutMs: number): string {
  return `no response within ${timeoutMs / 1_000} s`;
}

function kindOf(status: number, chunks: readonly Buffer[]): string {
  if (status < 400) return String(status);
  return `${status} ${Buffer.concat(chunks).toString().trim().slice(0, 60)}`.trim();
}

/** The number of requests that ended in each way, the most frequent first: `[["200", 3000], ["503 …", 4]]`. */
export function countKinds(outcomes: readonly Outcome[]): readonly (readonly [string, number])[] {
  const counts = new Map<string, number>();
  for (const { kind } of outcomes) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}

/** Milliseconds below which `percent` of the requests ended. */
export function latency(outcomes: readonly Outcome[], percent: number): number {
  return percentile(
    outcomes.map(({ tookMs }) => tookMs),
    percent,
  );
}

/** Milliseconds from `sinceMs` to the start of the first request after which none failed; 0 if none failed. */
export function recoveryMs(
  outcomes: readonly Outcome[],
  sinceMs: number,
  isGood: (outcome: Outcome) => boolean,
): number {
  const last = Math.max(...outcomes.filter((outcome) => !isGood(outcome)).map(({ startedMs }) => startedMs));
  return Math.max(0, last - sinceMs);
}
