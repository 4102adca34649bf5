/**
 * The connections of this worker to one endpoint. Each connection is one undici `Client` that carries one request at a
 * time; free ones wait on a stack, so the warmest is used first and the others age out (undici closes a socket that
 * has been idle, and opens it again on use).
 */
import type { SecureContextOptions } from "node:tls";
import { Client } from "undici";
import type { Endpoint, UpstreamTls } from "../ir/snapshot.ts";
import type { UpstreamFailure } from "./failure.ts";
import { type CallOwner, type ResponseSink, UpstreamCall, type UpstreamRequest } from "./call.ts";

export interface PoolOptions {
  /** More requests than this wait in line. */
  readonly maxConnections: number;
  readonly connectTimeoutMs: number;
  /** Longest wait for the head of an answer, and between two pieces of a body; 0 waits for ever. */
  readonly idleTimeoutMs: number;
}

interface Waiting {
  readonly request: UpstreamRequest;
  readonly call: UpstreamCall;
}

export class EndpointPool implements CallOwner {
  readonly endpoint: Endpoint;
  /** `host:port` */
  readonly address: string;
  readonly #origin: string;
  readonly #tls: UpstreamTls | undefined;
  readonly #options: PoolOptions;
  readonly #connections = new Set<Client>();
  readonly #free: Client[] = [];
  readonly #waiting: Waiting[] = [];
  #closing = false;
  /** Requests that are on a connection or wait for one. */
  inFlight = 0;

  constructor(endpoint: Endpoint, tls: UpstreamTls | undefined, options: PoolOptions) {
    const host = endpoint.host.includes(":") ? `[${endpoint.host}]` : endpoint.host;
    this.endpoint = endpoint;
    this.address = `${host}:${endpoint.port}`;
    this.#origin = `${tls === undefined ? "http" : "https"}://${this.address}`;
    this.#tls = tls;
    this.#options = options;
  }

  /** Sends `request` as soon as a connection is free; `sink` hears of the answer. */
  send(request: UpstreamRequest, sink: ResponseSink): UpstreamCall {
    const call = new UpstreamCall(this.address, sink, this);
    this.inFlight++;
    const client = this.#free.pop() ?? this.#openClient();
    if (client === undefined) this.#waiting.push({ request, call });
    else this.#dispatch(client, request, call);
    return call;
  }

  /** Lets calls finish, those of requests that still hold an older snapshot too, and closes each connection after its last. */
  close(): void {
    this.#closing = true;
    for (const client of this.#free.splice(0)) void client.close();
  }

  /** Closes every connection now; calls under way fail. */
  destroy(): void {
    this.#closing = true;
    for (const client of this.#connections) void client.destroy();
  }

  /** Takes a connection back from a call that ended. One on which a call failed is not used again. */
  release(call: UpstreamCall, failure: UpstreamFailure | undefined): void {
    this.inFlight--;
    const client = call.connection;
    if (client === undefined) return;
    call.connection = undefined;
    if (failure !== undefined) this.#discard(client);
    const next = this.#waiting.shift();
    const usable = failure === undefined ? client : next === undefined ? undefined : this.#openClient();
    if (usable === undefined) return;
    if (next !== undefined) this.#dispatch(usable, next.request, next.call);
    else if (this.#closing) this.#discard(usable);
    else this.#free.push(usable);
  }

  #openClient(): Client | undefined {
    if (this.#connections.size >= this.#options.maxConnections) return undefined;
    const client = new Client(this.#origin, {
      pipelining: 1,
      headersTimeout: this.#options.idleTimeoutMs,
      bodyTimeout: this.#options.idleTimeoutMs,
      maxHeaderSize: 64 * 1024,
      connect: {
        timeout: this.#options.connectTimeoutMs,
        ...(this.#tls === undefined ? {} : tlsOptions(this.#tls)),
      },
    });
    this.#connections.add(client);
    return client;
  }

  #discard(client: Client): void {
    this.#connections.delete(client);
    // A switched connection may end after the pool was destroyed.
    if (!client.destroyed) void client.close();
  }

  #dispatch(client: Client, request: UpstreamRequest, call: UpstreamCall): void {
    call.connection = client;
    try {
      client.dispatch(
        {
          method: request.method,
          path: request.path,
          // undici reads the array and keeps none of it; its type only lacks the word readonly.
          headers: request.headers as string[],
          body: request.body ?? null,
          ...(request.idleTimeoutMs !== undefined && {
            headersTimeout: request.idleTimeoutMs,
            bodyTimeout: request.idleTimeoutMs,
          }),
          upgrade: request.upgrade ?? null,
        },
        call,
      );
    } catch (error) {
      // A request that undici refuses to write (a method or a header that it finds unsafe): nothing was sent.
      call.onResponseError(undefined, error instanceof Error ? error : new Error(String(error)));
    }
  }
}

/** As node:tls names them; what is absent has node's default. */
function tlsOptions({
  hostname,
  authorities,
  clientCertificate,
}: UpstreamTls): SecureContextOptions & { servername?: string } {
  return {
    ...(hostname !== undefined && { servername: hostname }),
    ...(authorities !== undefined && { ca: authorities }),
    ...(clientCertificate !== undefined && { cert: clientCertificate.chain, key: clientCertificate.privateKey.secret }),
  };
}
