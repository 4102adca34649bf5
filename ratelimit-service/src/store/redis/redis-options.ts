/** How to reach a Redis, as the reference's settings say it (REDIS_TYPE, REDIS_URL, REDIS_AUTH, REDIS_TLS …). */

export interface RedisOptions {
  readonly topology: "single" | "sentinel" | "cluster";
  /** A host and port or a socket's path; for sentinel and cluster the nodes to ask first, at least one. */
  readonly addresses: readonly RedisAddress[];
  /** The name under which the sentinels know the master; absent elsewhere. */
  readonly masterName?: string;
  readonly auth?: RedisAuth;
  /** Number of the database to select; absent: the server's first, 0. Sentinels and clusters have no others. */
  readonly database?: number;
  /** Towards the sentinels themselves. */
  readonly sentinelAuth?: RedisAuth;
  readonly tls?: RedisTls;
  /** For connecting and for each answer, in ms. */
  readonly timeoutMs: number;
  readonly startup: RedisStartup;
}

export type RedisAddress =
  /** `family` is the version of IP that the host is to have; absent: either. */
  | { readonly kind: "tcp"; readonly host: string; readonly port: number; readonly family?: 4 | 6 }
  | { readonly kind: "unix"; readonly path: string };

export interface RedisAuth {
  /** Absent for the default user. */
  readonly username?: string;
  readonly password: string;
}

/** Paths of PEM files; they are read once, at the start. */
export interface RedisTls {
  readonly certificateFile?: string;
  readonly keyFile?: string;
  /** Trusted instead of the system's authorities. */
  readonly authoritiesFile?: string;
  /** The certificate must be valid, but may be for another host. */
  readonly skipsHostnameVerification: boolean;
}

/** Waiting for the first connection, in ms: the interval doubles from the first to the longest. */
export interface RedisStartup {
  readonly initialIntervalMs: number;
  readonly maxIntervalMs: number;
  /** Gives up after that long; 0 never does. */
  readonly maxElapsedMs: number;
}

const defaultPort = 6379;

/**
 * `host:port`, `host`, `[v6]:port`, a `redis://` or `rediss://` URL of these, or a path; `undefined` for what is none of
 * them. Of a URL only the address is read here.
 * @param isPath any text is a path
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

/** What a `redis://user:password@host:port/N` URL says beside the address; `?username=`, `password=` and `db=` do as well. */
export interface RedisUrlParts {
  readonly auth?: RedisAuth;
  /** As written; empty for none. */
  readonly database: string;
}

/** `undefined` for what is no such URL. */
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

/** A `%` that begins no escape stands for itself. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** `password` or `user:password`; `undefined` for an empty text. */
export function parseRedisAuth(text: string): RedisAuth | undefined {
  if (text === "") return undefined;
  const colon = text.indexOf(":");
  if (colon === -1) return { password: text };
  return { username: text.slice(0, colon), password: text.slice(colon + 1) };
}

/** `host:port`, for messages. */
export function renderRedisAddress(address: RedisAddress): string {
  if (address.kind === "unix") return address.path;
  return address.host.includes(":") ? `[${address.host}]:${address.port}` : `${address.host}:${address.port}`;
}

/** The addresses of a sentinel or cluster set-up, which has no sockets in the file system. */
export function tcpAddresses({
  addresses,
}: Pick<RedisOptions, "addresses">): { readonly host: string; readonly port: number; readonly family?: 4 | 6 }[] {
  return addresses.flatMap((address) => {
    if (address.kind !== "tcp") return [];
    const { host, port, family } = address;
    return [{ host, port, ...(family === undefined ? {} : { family }) }];
  });
}
