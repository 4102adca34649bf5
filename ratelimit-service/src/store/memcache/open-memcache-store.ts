/**
 * Opens a memcached store from the settings, with its servers from a list or from an SRV record that is read again at
 * an interval.
 */
import { resolveSrv as systemResolveSrv } from "node:dns/promises";
import { readFileSync } from "node:fs";
import type { ConnectionOptions } from "node:tls";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { trustSystemAuthorities } from "@gatewayproxy/runtime/system-authorities";
import { toError } from "@gatewayproxy/runtime/thrown-value";
import type { MemcacheAddress, MemcacheOptions, MemcacheTls } from "./memcache-options.ts";
import { MemcacheServer } from "./memcache-server.ts";
import { MemcacheStore, type MemcacheStoreOptions } from "./memcache-store.ts";

/** The settings of the store and of its servers. */
export interface OpenMemcacheOptions extends MemcacheStoreOptions {
  /** The servers. */
  readonly memcache: MemcacheOptions;
  /** Resolves SRV records; the default is the system's resolver. */
  readonly resolveSrv?: (name: string) => Promise<readonly { readonly name: string; readonly port: number }[]>;
}

/** A store whose servers may not be known yet. */
export interface OpeningMemcacheStore {
  readonly store: MemcacheStore;
  /** Resolves when the servers are known; rejects when their SRV record cannot be read. */
  readonly connected: Promise<void>;
}

/** Opens the store; connections are opened with the first call. Throws when a certificate cannot be read. */
export function openMemcacheStore(options: OpenMemcacheOptions, signal: AbortSignal): OpeningMemcacheStore {
  const { memcache, clock } = options;
  const { servers, timeoutMs } = memcache;
  const tls = memcache.tls === undefined ? undefined : readTls(memcache.tls);
  const serversOf = (addresses: readonly MemcacheAddress[]) =>
    addresses.map(
      (address) => new MemcacheServer({ address, timeoutMs, clock, ...(tls === undefined ? {} : { tls }) }),
    );
  if (servers.kind === "list") {
    return { store: new MemcacheStore(serversOf(servers.addresses), options), connected: loadClient() };
  }
  const store = new MemcacheStore([], options);
  const { resolveSrv = systemResolveSrv, onError } = options;
  let currentServers = "";
  const refresh = async (): Promise<void> => {
    const addresses = sortServers(await resolveSrv(servers.name));
    if (addresses.length === 0) throw new Error(`MEMCACHE_SRV: ${servers.name} lists no server`);
    const text = JSON.stringify(addresses);
    // Unchanged servers keep their connections.
    if (text !== currentServers) store.replaceServers(serversOf(addresses));
    currentServers = text;
  };
  const connected = Promise.all([refresh(), loadClient()]).then(() => {
    if (servers.refreshMs > 0) repeat(servers.refreshMs, refresh, { clock, onError, signal });
  });
  return { store, connected };
}

/** Loads the client before the first call, which would otherwise wait for it within its timeout. */
async function loadClient(): Promise<void> {
  await import("memcache");
}

function repeat(
  ms: number,
  refresh: () => Promise<void>,
  {
    clock,
    onError,
    signal,
  }: { readonly clock: Clock; readonly onError: (error: Error) => void; readonly signal: AbortSignal },
): void {
  const timer = clock.setTimer(ms, () => {
    refresh()
      .catch((error: unknown) => onError(toError(error)))
      .finally(() => {
        if (!signal.aborted) repeat(ms, refresh, { clock, onError, signal });
      });
  });
  signal.addEventListener("abort", () => timer.cancel(), { once: true });
}

/**
 * Sorts the servers as envoyproxy/ratelimit does, because the order decides where a counter is: by the text
 * `host.:port`, with the dot of a full name.
 */
function sortServers(records: readonly { readonly name: string; readonly port: number }[]): readonly MemcacheAddress[] {
  return records
    .map(({ name, port }) => ({ host: name.replace(/\.$/, ""), port }))
    .sort((a, b) => Buffer.compare(Buffer.from(`${a.host}.:${a.port}`), Buffer.from(`${b.host}.:${b.port}`)));
}

function readTls({
  certificateFile,
  keyFile,
  authoritiesFile,
  skipsHostnameVerification,
}: MemcacheTls): ConnectionOptions {
  if (authoritiesFile === undefined) trustSystemAuthorities();
  return {
    ...(certificateFile === undefined ? {} : { cert: readFileSync(certificateFile) }),
    ...(keyFile === undefined ? {} : { key: readFileSync(keyFile) }),
    ...(authoritiesFile === undefined ? {} : { ca: readFileSync(authoritiesFile) }),
    ...(skipsHostnameVerification ? { checkServerIdentity: () => undefined } : {}),
  };
}
