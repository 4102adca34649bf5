/**
 * Sends unary gRPC calls over HTTP/2 to the less busy of two open endpoints of the service. A call that an endpoint has
 * certainly not processed is sent once more, to another endpoint or over a new connection.
 */
import type { PendingCall } from "./call.ts";
import { type ConnectionOptions, EndpointConnection } from "./endpoint-connection.ts";
import { type CallOutcome, callFailure, type Endpoints, type UnaryClient } from "./unary-client.ts";

/** A client of one service with one connection to each endpoint. */
export class UnaryGrpcClient<Tls> implements UnaryClient<Tls> {
  readonly #options: ConnectionOptions<Tls>;
  /** By address and TLS settings. */
  #byEndpoint: ReadonlyMap<string, EndpointConnection<Tls>> = new Map();
  #connections: readonly EndpointConnection<Tls>[] = [];

  constructor(options: ConnectionOptions<Tls>) {
    this.#options = options;
  }

  /**
   * Connects to new endpoints at once, so that no call waits for it. Removed endpoints finish their calls and close.
   */
  update({ endpoints, tls }: Endpoints<Tls>): void {
    const kept = new Map<string, EndpointConnection<Tls>>();
    for (const endpoint of endpoints) {
      const key = `${endpoint.host} ${endpoint.port} ${tls === undefined ? "" : JSON.stringify(tls)}`;
      if (kept.has(key)) continue;
      kept.set(key, this.#byEndpoint.get(key) ?? new EndpointConnection(endpoint, tls, this.#options));
    }
    for (const [key, connection] of this.#byEndpoint) if (!kept.has(key)) connection.retire();
    this.#byEndpoint = kept;
    this.#connections = [...kept.values()];
  }

  call(
    path: string,
    message: Buffer,
    timeoutMs: number,
    done: (outcome: CallOutcome) => void,
    fields?: readonly string[],
  ): void {
    const first = this.#pick();
    if (first === undefined) {
      done(callFailure("unavailable", this.#connections[0]?.connectionError ?? "the service has no endpoint"));
      return;
    }
    const call: PendingCall = {
      path,
      message,
      ...(fields !== undefined && { fields }),
      deadlineMs: this.#options.clock.monotonicMs() + timeoutMs,
      onDone: done,
      onUnprocessed: (failure) => {
        const second = this.#pick();
        if (second === undefined) done(failure);
        else second.send({ ...call, onUnprocessed: done });
      },
    };
    first.send(call);
  }

  close(): void {
    for (const connection of this.#connections) connection.close();
  }

  /** Picks the less busy of two random open endpoints; else one that is opening; else none. */
  #pick(): EndpointConnection<Tls> | undefined {
    const [only, other] = this.#connections;
    if (other === undefined) return only === undefined || only.state === "lost" ? undefined : only;
    const open = this.#connections.filter(({ state }) => state === "open");
    if (open.length === 0) return this.#connections.find(({ state }) => state === "opening");
    const { random } = this.#options;
    const first = Math.floor(random() * open.length);
    const second = (first + 1 + Math.floor(random() * Math.max(1, open.length - 1))) % open.length;
    const [a, b] = [open[first], open[second]];
    return a !== undefined && b !== undefined && b.inFlight < a.inFlight ? b : a;
  }
}
