/**
 * Requests to the API server with the credentials of a cluster, over persistent connections. This layer handles HTTP
 * and JSON, but no resources.
 */
import { Agent as HttpAgent, type IncomingHttpHeaders, type IncomingMessage, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { Cluster } from "./cluster.ts";

/** A request. */
export interface ApiRequest {
  /** Default GET. */
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Absolute path, such as `/api/v1/namespaces/default/secrets`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Default `application/json`. */
  readonly contentType?: string;
  readonly signal?: AbortSignal;
  /**
   * Called when the request is about to be sent, which fails if it returns false: a process that was paused while it
   * read its credentials continues here. Default: it may be sent.
   */
  readonly maySend?: () => boolean;
  /** Idle timeout: the maximum time without data, before and within the response. Default 30 s. */
  readonly silenceMs?: number;
}

/** A response whose body is read by the caller. */
export interface ApiResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The body, which the caller reads to its end or destroys. */
  readonly body: IncomingMessage;
}

/** A response with its parsed body. */
export interface ApiJsonResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Undefined if the body is not JSON. */
  readonly json: unknown;
}

const defaultSilenceMs = 30_000;

/** TCP keep-alive: detects a dead peer in less than half a minute on a connection that is idle for minutes. */
const keepAliveMs = 15_000;

/** Identifies the gateway in the audit log. */
const userAgent = "gateway-proxy";

/** Persistent connections to one API server. */
export class ClusterConnection {
  readonly #cluster: Cluster;
  readonly #agent: HttpAgent | HttpsAgent;
  /** Whether a request had no response, and none has had one since. */
  #isUnreachable = false;
  #recovery = new AbortController();

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    const options = { keepAlive: true, keepAliveMsecs: keepAliveMs };
    this.#agent = cluster.server.protocol === "http:" ? new HttpAgent(options) : new HttpsAgent(options);
  }

  /** Aborts at the next response after a request that had none. Then there is another signal. */
  get recovery(): AbortSignal {
    return this.#recovery.signal;
  }

  /** Resolves with the head of the response, whatever its status; rejects if there is none. */
  async request(request: ApiRequest): Promise<ApiResponse> {
    const { method = "GET", body, contentType = "application/json", signal, silenceMs = defaultSilenceMs } = request;
    const { headers = {}, ...credentials } = await this.#cluster.credentials();
    if (request.maySend?.() === false) throw new Error("not sent, since this replica does not lead");
    const text = body === undefined ? undefined : JSON.stringify(body);
    const url = urlOf(this.#cluster.server, request);
    const send = url.protocol === "http:" ? httpRequest : httpsRequest;
    return await new Promise((resolve, reject) => {
      const sent = send(url, {
        agent: this.#agent,
        ...credentials,
        method,
        headers: {
          "user-agent": userAgent,
          accept: "application/json",
          ...(text !== undefined && { "content-type": contentType, "content-length": Buffer.byteLength(text) }),
          ...headers,
        },
        ...(signal !== undefined && { signal }),
      });
      sent.once("socket", (socket) => socket.setKeepAlive(true, keepAliveMs));
      sent.setTimeout(silenceMs, () => {
        sent.destroy(new Error(`the API server sent nothing for ${silenceMs / 1_000} s`));
      });
      sent.once("error", (error) => {
        this.#isUnreachable ||= signal?.aborted !== true;
        reject(error);
      });
      sent.once("response", (response) => {
        this.#recover();
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: response });
      });
      sent.end(text);
    });
  }

  /** Resolves with the whole response, whatever its status; rejects if there is none or it is incomplete. */
  async requestJson(request: ApiRequest): Promise<ApiJsonResponse> {
    const { status, headers, body } = await this.request(request);
    return { status, headers, json: parseJson(await readText(body)) };
  }

  #recover(): void {
    if (!this.#isUnreachable) return;
    this.#isUnreachable = false;
    this.#recovery.abort();
    this.#recovery = new AbortController();
  }

  /** Closes idle connections; callers abort their requests in progress. */
  close(): void {
    this.#agent.destroy();
  }
}

/** Reads a whole body as text. */
export async function readText(body: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  // Without an encoding, a message yields buffers.
  for await (const chunk of body as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

/** Parses JSON; undefined for invalid text. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Builds the URL. The server may have a path prefix, as with Rancher. */
function urlOf(server: URL, { path, query = {} }: ApiRequest): URL {
  const url = new URL(server.pathname.replace(/\/$/, "") + path, server);
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, value);
  return url;
}
