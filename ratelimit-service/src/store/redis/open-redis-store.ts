/** Opens a Redis store from the settings. */
import { readFileSync } from "node:fs";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { trustSystemAuthorities } from "@gatewayproxy/runtime/system-authorities";
import { toError } from "@gatewayproxy/runtime/thrown-value";
import { withBoundedReplies } from "./bounded-replies.ts";
import { ClusterLink } from "./cluster-link.ts";
import type { OnLinkError, RedisLink, TlsSocketOptions } from "./redis-link.ts";
import type { RedisOptions, RedisStartup, RedisTls } from "./redis-options.ts";
import { RedisStore } from "./redis-store.ts";
import { SentinelLink } from "./sentinel-link.ts";
import { SingleLink } from "./single-link.ts";

/** The settings of the store and of its servers. */
export interface OpenRedisOptions {
  /** The servers. */
  readonly redis: RedisOptions;
  /** As `RedisStoreOptions.jitterMaxSeconds`. */
  readonly jitterMaxSeconds: number;
  /** Times replies, probes and attempts to connect. */
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Called for every error, before and after the store is open: of a connection or a command, or a timeout. */
  readonly onError: OnLinkError;
  /** Called for every successful reply, unless a connection is stalled. */
  readonly onReply?: () => void;
}

/** A store that may still be connecting. */
export interface OpeningRedisStore {
  /** Usable at once; rejects calls until it is connected. */
  readonly store: RedisStore;
  /**
   * Resolves with the first connection, and when the signal aborts. Rejects with the last error when the startup
   * options say to give up.
   */
  readonly connected: Promise<void>;
}

/**
 * Starts to connect, and retries after pauses that double, as the startup options say. Throws when a certificate cannot
 * be read.
 */
export function openRedisStore(options: OpenRedisOptions, signal?: AbortSignal): OpeningRedisStore {
  const { redis, jitterMaxSeconds, clock, random, onError, onReply } = options;
  const { startup, timeoutMs } = redis;
  const link = withBoundedReplies(linkFor(redis, onError));
  const reopen = (closing: AbortSignal) => connect(link, { ...startup, maxElapsedMs: 0 }, { clock, onError }, closing);
  const store = new RedisStore({ link, timeoutMs, jitterMaxSeconds, clock, random, reopen, onError, onReply });
  return { store, connected: connect(link, startup, { clock, onError }, signal) };
}

function linkFor({ tls, ...redis }: RedisOptions, onError: OnLinkError): RedisLink {
  const options = tls === undefined ? redis : { ...redis, tls: readTls(tls) };
  switch (redis.topology) {
    case "single":
      return new SingleLink(options, onError);
    case "sentinel":
      return new SentinelLink(options, onError);
    case "cluster":
      return new ClusterLink(options, onError);
  }
}

function readTls({ certificateFile, keyFile, authoritiesFile, skipsHostnameVerification }: RedisTls): TlsSocketOptions {
  if (authoritiesFile === undefined) trustSystemAuthorities();
  return {
    tls: true,
    ...(certificateFile === undefined ? {} : { cert: readFileSync(certificateFile) }),
    ...(keyFile === undefined ? {} : { key: readFileSync(keyFile) }),
    ...(authoritiesFile === undefined ? {} : { ca: readFileSync(authoritiesFile) }),
    ...(skipsHostnameVerification ? { checkServerIdentity: () => undefined } : {}),
  };
}

/** Rejects with the last error when the time is over; resolves without a connection when the signal aborts. */
async function connect(
  link: RedisLink,
  { initialIntervalMs, maxIntervalMs, maxElapsedMs }: RedisStartup,
  { clock, onError }: Pick<OpenRedisOptions, "clock" | "onError">,
  signal?: AbortSignal,
): Promise<void> {
  const startMs = clock.monotonicMs();
  for (let pauseMs = initialIntervalMs; ; pauseMs = Math.min(pauseMs * 2, maxIntervalMs)) {
    try {
      await link.open();
      return;
    } catch (cause) {
      if (isAborted(signal)) return;
      const error = toError(cause);
      const elapsedMs = clock.monotonicMs() - startMs + pauseMs;
      if (maxElapsedMs > 0 && elapsedMs > maxElapsedMs) throw error;
      onError(error);
      await pause(pauseMs, clock, signal);
      if (isAborted(signal)) return;
    }
  }
}

/** Waits; ends early when the signal aborts. */
function pause(ms: number, clock: Clock, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      timer.cancel();
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = clock.setTimer(ms, end);
    signal?.addEventListener("abort", end);
  });
}

/** A separate function, because the compiler assumes that the flag does not change between two checks. */
function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}
