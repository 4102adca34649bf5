/**
 * Connection options of Redis, from envoyproxy/ratelimit's settings (REDIS_TYPE, REDIS_URL, REDIS_AUTH, REDIS_TLS …).
 */

/** The servers of the store, and how to connect to them. */
export interface RedisOptions {
  /** One server, a master that sentinels name, or a cluster (REDIS_TYPE). */
  readonly topology: "single" | "sentinel" | "cluster";
  /** A host and port, or a socket's path; for sentinel and cluster the initial nodes, at least one. */
  readonly addresses: readonly RedisAddress[];
  /** The name of the master in the sentinels; absent for other types. */
  readonly masterName?: string;
  /** Credentials for the servers; absent: none are sent. */
  readonly auth?: RedisAuth;
  /** Number of the database; the default is 0. Sentinels and clusters have no others. */
  readonly database?: number;
  /** Credentials for the sentinels themselves. */
  readonly sentinelAuth?: RedisAuth;
  /** Certificates; absent: plain text. */
  readonly tls?: RedisTls;
  /** Timeout of connecting and of each reply, in ms. */
  readonly timeoutMs: number;
  /** Retries of the first connection. */
  readonly startup: RedisStartup;
}

/** The TCP address or the Unix socket of a server. */
export type RedisAddress =
  /** `family` is the IP version for the host; without it, either. */
  | { readonly kind: "tcp"; readonly host: string; readonly port: number; readonly family?: 4 | 6 }
  | { readonly kind: "unix"; readonly path: string };

/** Credentials for the command AUTH. */
export interface RedisAuth {
  /** Absent for the default user. */
  readonly username?: string;
  readonly password: string;
}

/** Paths of PEM files, which are read once, at the start. */
export interface RedisTls {
  readonly certificateFile?: string;
  readonly keyFile?: string;
  /** Certificate authorities in place of the system's. */
  readonly authoritiesFile?: string;
  /** Whether a valid certificate for another host is accepted. */
  readonly skipsHostnameVerification: boolean;
}

/** Retries of the first connection, in ms: the interval doubles from the first to the longest. */
export interface RedisStartup {
  readonly initialIntervalMs: number;
  readonly maxIntervalMs: number;
  /** Gives up after this time; 0 means never. */
  readonly maxElapsedMs: number;
}

const defaultPort = 6379;

/**
 * Parses `host:port`, `host`, `[v6]:port`, a `redis://` or `rediss://` URL of these, or a path; returns `undefined` for
 * anything else. Reads only the address of a URL.
 * @param isPath whether any text is a path
 */
export function parseRedisAddress(text: string, isPath = false): RedisAddress | undefined {
  if (text === "") return undefined;
  if (isPath || text.startsWith("/")) return { kind: "unix", path: text };
  const [, afterUser] = /^rediss?:\/\/(?:[^/]*@)?([^/?#]*)/.exec(text) ?? [];
  const [, v6, name, port] =
    /^(?:\[([0-9A-Fa-f:.]+)\]|([^:\s/@,[\]]+))(?::(\d{1,5}))?$/.exec(afterUser ?? text.replace(/\/$/, "")) ?? [];
  const host = v6 ?? name;
  const number = Number(port ?? defaultPort);
  return host === undefined || number < 1 || number > 65_535 ? undefined : { kind: "tcp", host, port: number };
}

/**
 * The parts of a `redis://user:password@host:port/N` URL beside the address; `?username=`, `password=` and `db=` work
 * as well.
 */
export interface RedisUrlParts {
  readonly auth?: RedisAuth;
  /** As written; empty for none. */
  readonly database: string;
}

/** Returns `undefined` for anything that is not such a URL. */
export function parseRedisUrl(text: string): RedisUrlParts | undefined {
  const url = /^rediss?:\/\//.test(text) ? URL.parse(text) : null;
  if (url === null) return undefined;
  const { searchParams: query } = url;
  const password = decoded(url.password) || (query.get("password") ?? "");
  const username = decoded(url.username) || (query.get("username") ?? "");
  const path = url.pathname.slice(1);
  return {
    ...(password === "" ? {} : { auth: username === "" ? { password } : { username, password } }),
    database: path === "" ? (query.get("db") ?? "") : path,
  };
}

/** A `%` that begins no escape is literal. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Parses `password` or `user:password`; returns `undefined` for an empty text. */
export function parseRedisAuth(text: string): RedisAuth | undefined {
  if (text === "") return undefined;
  const colon = text.indexOf(":");
  if (colon === -1) return { password: text };
  return { username: text.slice(0, colon), password: text.slice(colon + 1) };
}

/** Renders `host:port`, for messages. */
export function renderRedisAddress(address: RedisAddress): string {
  if (address.kind === "unix") return address.path;
  return address.host.includes(":") ? `[${address.host}]:${address.port}` : `${address.host}:${address.port}`;
}

/** Returns the TCP addresses of a sentinel or cluster setup, which has no Unix sockets. */
export function tcpAddresses({
  addresses,
}: Pick<RedisOptions, "addresses">): { readonly host: string; readonly port: number; readonly family?: 4 | 6 }[] {
  return addresses.flatMap((address) => {
    if (address.kind !== "tcp") return [];
    const { host, port, family } = address;
    return [{ host, port, ...(family === undefined ? {} : { family }) }];
  });
}
