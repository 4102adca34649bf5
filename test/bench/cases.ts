/**
 * The compared cases. Each is one kind of request to one of the listeners that every peer opens: a plain one, and
 * others whose routes are limited, by the peer itself or by a rate limit service.
 */

/** A listener that every peer opens. */
export type ListenerName = (typeof listenerNames)[number];
export const listenerNames = ["plain", "limited", "global", "path", "tls", "routes", "keyed"] as const;

/** The request of one case, and the expected response. */
export interface BenchCase {
  readonly name: string;
  readonly title: string;
  /**
   * The listener of the peer: routes without a policy, under local limits, under a global limit counted by a service
   * that all peers share, or by the peer's own service, whose CPU time and Redis then belong to the results; `tls` is
   * `plain` over TLS; `routes` has many routes, each on a host of its own; `keyed` has a local limit for each value of
   * `keyHeader`.
   */
  readonly listener: ListenerName;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  /** `wrk` uses HTTP/1.1, `h2load` HTTP/2, `websocket` sends messages that the backend echoes. */
  readonly load: "wrk" | "h2load" | "websocket";
  readonly connections: number;
  /** Concurrent requests on one connection; 1 on HTTP/1.1. */
  readonly streams: number;
  /** A response header that shows that the peer does the work of the case. */
  readonly expectHeader: string | undefined;
  /** The length of the body if `body` is undefined; 0 for none. */
  readonly bodyBytes?: number;
  /** The number of different values of `keyHeader`, in turn; absent: the header is not sent. */
  readonly keys?: number;
  /** The worker threads of each peer; absent: those of `--workers`. */
  readonly workers?: number;
}

/** The request header that the limit of the listener `keyed` counts by. */
export const keyHeader = "x-user";

/** The routes of the listener `routes`. */
export const routeCount = 5_000;

/** Returns the host of a route of the listener `routes`. @param number from 0 */
export function hostOfRoute(number: number): string {
  return `host-${number}.bench.test`;
}

/** The path at which the backend reads a body and responds with its length. */
export const uploadPath = "/v1/upload";

/** The length of the response of the static backend to `/large`. */
export const largeBytes = 100_000_000;

/** The response of the static backend: 1 KiB, about the size of a response of a small JSON API. */
export const staticBody = JSON.stringify({ object: "list", padding: "x".repeat(994) });

/** Chunks of one event stream: about the tokens of a paragraph. */
export const streamChunks = 200;

/** Headers that an API client in a browser sends; with Host they are 13. */
const twelveHeaders = {
  accept: "application/json",
  "accept-encoding": "gzip, deflate, br",
  "accept-language": "en-GB,en;q=0.9,de;q=0.8",
  authorization: `Bearer ${"k".repeat(48)}`,
  "cache-control": "no-cache",
  cookie: "session=0123456789abcdef0123456789abcdef; theme=dark",
  origin: "https://chat.example.com",
  referer: "https://chat.example.com/conversations/42",
  "user-agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36",
  "x-client-version": "5.21.0",
  "x-correlation-id": "7b0f3c52-6f1e-4e0e-9d59-0f6f3a2f1c11",
  "x-tenant": "acme",
};

/** A request without a body on 64 connections. */
export const plain: BenchCase = {
  name: "plain",
  title: "plain HTTP/1.1",
  listener: "plain",
  method: "GET",
  path: "/",
  headers: {},
  body: undefined,
  load: "wrk",
  connections: 64,
  streams: 1,
  expectHeader: undefined,
};

export const benchCases: readonly BenchCase[] = [
  plain,
  { ...plain, name: "plain-8", title: "plain, few connections", connections: 8 },
  {
    ...plain,
    name: "local",
    title: "local limit, with its headers",
    listener: "limited",
    expectHeader: "x-ratelimit-limit",
  },
  {
    ...plain,
    name: "global",
    title: "global limit, same service",
    listener: "global",
    expectHeader: "x-ratelimit-limit",
  },
  {
    ...plain,
    name: "global-path",
    title: "global limit, with each one's own service and Redis",
    listener: "path",
    expectHeader: "x-ratelimit-limit",
  },
  { ...plain, name: "headers", title: "13 request headers", headers: twelveHeaders },
  {
    ...plain,
    name: "post",
    title: "POST 2 KiB",
    method: "POST",
    headers: { "content-type": "application/octet-stream" },
    body: "x".repeat(2_048),
  },
  {
    ...plain,
    name: "sse",
    title: `event stream of ${streamChunks} chunks, usage read by ours`,
    listener: "limited",
    method: "POST",
    path: "/v1/chat/completions",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "mock",
      stream: true,
      stream_options: { include_usage: true },
      messages: [{ role: "user", content: "Hello" }],
    }),
    connections: 32,
  },
  { ...plain, name: "h2c", title: "HTTP/2 without TLS", load: "h2load", connections: 8, streams: 16 },
  { ...plain, name: "tls", title: "HTTP/1.1 over TLS", listener: "tls" },
  { ...plain, name: "tls-h2", title: "HTTP/2 over TLS", listener: "tls", load: "h2load", connections: 8, streams: 16 },
  { ...plain, name: "websocket", title: "WebSocket messages, there and back", path: "/ws", load: "websocket" },
];

/**
 * Cases of `--scale`: many routes, many keys, long bodies, and several workers. The first is what the others are
 * compared with.
 */
export const scaleCases: readonly BenchCase[] = [
  plain,
  {
    ...plain,
    name: "routes",
    title: `${routeCount.toLocaleString("en")} routes on other hosts`,
    listener: "routes",
    headers: { Host: hostOfRoute(routeCount / 2) },
  },
  {
    ...plain,
    name: "keys",
    title: "local limit of 100,000 keys",
    listener: "keyed",
    keys: 100_000,
    expectHeader: "x-ratelimit-limit",
  },
  { ...plain, name: "download", title: "response of 100 MB", path: "/large", connections: 4 },
  {
    ...plain,
    name: "upload",
    title: "request of 100 MB",
    method: "POST",
    path: uploadPath,
    bodyBytes: largeBytes,
    connections: 4,
  },
  { ...plain, name: "workers-2", title: "plain, 2 workers", workers: 2 },
  { ...plain, name: "workers-4", title: "plain, 4 workers", workers: 4 },
];
