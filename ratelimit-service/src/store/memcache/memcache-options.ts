/** How to reach memcached, as the reference's settings say it (MEMCACHE_HOST_PORT, MEMCACHE_SRV, MEMCACHE_TLS …). */

export interface MemcacheOptions {
  /** The servers, or the name of the SRV record that lists them. */
  readonly servers: MemcacheServers;
  readonly tls?: MemcacheTls;
  /** For a connection and for each answer, in ms. */
  readonly timeoutMs: number;
}

export type MemcacheServers =
  | { readonly kind: "list"; readonly addresses: readonly MemcacheAddress[] }
  /** `refreshMs` 0: the record is read at the start only. */
  | { readonly kind: "srv"; readonly name: string; readonly refreshMs: number };

export interface MemcacheAddress {
  readonly host: string;
  readonly port: number;
}

/** Paths of PEM files, which are read once, at the start. */
export interface MemcacheTls {
  readonly certificateFile?: string;
  readonly keyFile?: string;
  /** Trusted instead of the system's authorities. */
  readonly authoritiesFile?: string;
  /** The certificate must be valid, but may be for another host. */
  readonly skipsHostnameVerification: boolean;
}

/** The reference's client waits as long, for a connection and for an answer. */
export const memcacheTimeoutMs = 500;

/** `host:port` or `[v6]:port`; `undefined` for anything else. */
export function parseMemcacheAddress(text: string): MemcacheAddress | undefined {
  const [, v6, name, port] = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:\s/@,[\]]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = v6 ?? name;
  const number = Number(port);
  return host === undefined || number < 1 || number > 65_535 ? undefined : { host, port: number };
}

/** Whether a text is `_service._protocol.name`, as an SRV record is called. */
export function isSrvName(text: string): boolean {
  return /^_[^.]+\._[^.]+\../.test(text);
}
