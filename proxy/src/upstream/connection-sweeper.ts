/** Ends the requests to endpoints that take too long, and closes idle connections, with one timer for all of a worker. */
import type { Http1ClientConnection } from "@gatewayproxy/http/http1/client-connection";
import { sweepMs } from "@gatewayproxy/http/http1/client-connection";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

/** The open connections of a worker. */
export class ConnectionSweeper {
  readonly #connections = new Set<Http1ClientConnection>();
  readonly #timer: Timer;

  constructor(clock: Clock) {
    this.#timer = clock.every(sweepMs, () => {
      for (const connection of this.#connections) connection.sweep();
    });
  }

  add(connection: Http1ClientConnection): void {
    this.#connections.add(connection);
  }

  delete(connection: Http1ClientConnection): void {
    this.#connections.delete(connection);
  }

  close(): void {
    this.#timer.cancel();
  }
}
