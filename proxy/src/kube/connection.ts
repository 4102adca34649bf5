/**
 * Requests to the API server, with the credentials of a cluster, over connections that are kept. Knows HTTP and JSON,
 * and nothing of resources.
 */
import { Agent as HttpAgent, type IncomingHttpHeaders, type IncomingMessage, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { Cluster } from "./cluster.ts";

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
  /** Longest silence of the server, before the answer and within it. Default 30 s. */
  readonly silenceMs?: number;
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** To be read to its end, or destroyed. */
  readonly body: IncomingMessage;
}

export interface ApiAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Undefined where the answer is no JSON. */
  readonly json: unknown;
}

const defaultSilenceMs = 30_000;

/** Finds a dead peer in less than half a minute, where nothing is sent for minutes. */
const keepAliveMs = 15_000;

/** Other programs' requests are told apart by it in the audit log. */
const userAgent = "gateway-proxy";

export class ClusterConnection {
  readonly #cluster: Cluster;
  readonly #agent: HttpAgent | HttpsAgent;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    const options = { keepAlive: true, keepAliveMsecs: keepAliveMs };
    this.#agent = cluster.server.protocol === "http:" ? new HttpAgent(options) : new HttpsAgent(options);
  }

  /** Resolves with the head of the answer, whatever its status; rejects when there is none. */
  async request(request: ApiRequest): Promise<ApiResponse> {
    const { method = "GET", body, contentType = "application/json", signal, silenceMs = defaultSilenceMs } = request;
    const { headers = {}, ...credentials } = await this.#cluster.credentials();
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
        sent.destroy(new Error(`the API server was silent for ${silenceMs / 1_000} s`));
      });
      sent.once("error", reject);
      sent.once("response", (response) => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: response });
      });
      sent.end(text);
    });
  }

  /** Resolves with the whole answer, whatever its status; rejects when there is none, or it breaks off. */
  async requestJson(request: ApiRequest): Promise<ApiAnswer> {
    const { status, headers, body } = await this.request(request);
    return { status, headers, json: parseJson(await readText(body)) };
  }

  /** Ends connections that are not in use; whoever has a request under way aborts it. */
  close(): void {
    this.#agent.destroy();
  }
}

/** The whole of a body, as text. */
export async function readText(body: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  // Without an encoding set, a message gives buffers.
  for await (const chunk of body as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

/** Undefined for a text that is no JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The server may be behind a path, as Rancher's are. */
function urlOf(server: URL, { path, query = {} }: ApiRequest): URL {
  const url = new URL(server.pathname.replace(/\/$/, "") + path, server);
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, value);
  return url;
}
