/**
 * Connection options of memcached, from envoyproxy/ratelimit's settings (MEMCACHE_HOST_PORT, MEMCACHE_SRV, MEMCACHE_TLS
 * …).
 */

/** The servers of the store, and how to connect to them. */
export interface MemcacheOptions {
  /** The servers, or the name of the SRV record that lists them. */
  readonly servers: MemcacheServers;
  /** Certificates; absent: plain text. */
  readonly tls?: MemcacheTls;
  /** Timeout of connecting and of each response, in ms. */
  readonly timeoutMs: number;
}

/** A fixed list, or the name of an SRV record (RFC 2782) that lists the servers. */
export type MemcacheServers =
  | { readonly kind: "list"; readonly addresses: readonly MemcacheAddress[] }
  /** `refreshMs` 0: the record is read only at the start. */
  | { readonly kind: "srv"; readonly name: string; readonly refreshMs: number };

/** The TCP address of a server. */
export interface MemcacheAddress {
  readonly host: string;
  readonly port: number;
}

/** Paths of PEM files, which are read once, at the start. */
export interface MemcacheTls {
  readonly certificateFile?: string;
  readonly keyFile?: string;
  /** Certificate authorities in place of the system's. */
  readonly authoritiesFile?: string;
  /** Whether a valid certificate for another host is accepted. */
  readonly skipsHostnameVerification: boolean;
}

/** The timeout of envoyproxy/ratelimit's client, for a connection and for a response. */
export const memcacheTimeoutMs = 500;

/** Parses `host:port` or `[v6]:port`; returns `undefined` for anything else. */
export function parseMemcacheAddress(text: string): MemcacheAddress | undefined {
  const [, v6, name, port] = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:\s/@,[\]]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = v6 ?? name;
  const number = Number(port);
  return host === undefined || number < 1 || number > 65_535 ? undefined : { host, port: number };
}

/** Whether a text has the form of an SRV record's name: `_service._protocol.name`. */
export function isSrvName(text: string): boolean {
  return /^_[^.]+\._[^.]+\../.test(text);
}
