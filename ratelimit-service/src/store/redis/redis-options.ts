/** How to reach a Redis, as the reference's settings say it (REDIS_TYPE, REDIS_URL, REDIS_AUTH, REDIS_TLS …). */

export interface RedisOptions {
  readonly topology: "single" | "sentinel" | "cluster";
  /** A host and port or a socket's path; for sentinel and cluster the nodes to ask first, at least one. */
  readonly addresses: readonly RedisAddress[];
  /** The name under which the sentinels know the master; absent elsewhere. */
  readonly masterName?: string;
  readonly auth?: RedisAuth;
  /** Towards the sentinels themselves. */
  readonly sentinelAuth?: RedisAuth;
  readonly tls?: RedisTls;
  /** For connecting and for each answer, in ms. */
  readonly timeoutMs: number;
  readonly startup: RedisStartup;
}

export type RedisAddress =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
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
 * `host:port`, `host`, `[v6]:port`, `redis://user:password@host:port/`, or a path; `undefined` for what is none of them.
 * @param socketType "unix" takes any text for a path
 */
export function parseRedisAddress(text: string, socketType?: "tcp" | "unix"): RedisAddress | undefined {
  if (text === "") return undefined;
  if (socketType === "unix" || text.startsWith("/")) return { kind: "unix", path: text };
  const bare = text.replace(/^rediss?:\/\/(?:[^/]*@)?/, "").replace(/\/$/, "");
  const [, v6, name, port] = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:\s/@,[\]]+))(?::(\d{1,5}))?$/.exec(bare) ?? [];
  const host = v6 ?? name;
  const number = Number(port ?? defaultPort);
  return host === undefined || number < 1 || number > 65_535 ? undefined : { kind: "tcp", host, port: number };
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
}: Pick<RedisOptions, "addresses">): { readonly host: string; readonly port: number }[] {
  return addresses.flatMap((address) => (address.kind === "tcp" ? [{ host: address.host, port: address.port }] : []));
}
