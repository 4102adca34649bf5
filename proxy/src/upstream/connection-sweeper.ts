/**
 * Ends the requests to endpoints that take too long, and closes idle connections, with one timer for all of a worker.
 */
import { type Swept, sweepMs } from "@gatewayproxy/http/sweep";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

/** The open connections of a worker. */
export class ConnectionSweeper {
  readonly #connections = new Set<Swept>();
  readonly #timer: Timer;

  constructor(clock: Clock) {
    this.#timer = clock.every(sweepMs, () => {
      for (const connection of this.#connections) connection.sweep();
    });
  }

  add(connection: Swept): void {
    this.#connections.add(connection);
  }

  delete(connection: Swept): void {
    this.#connections.delete(connection);
  }

  close(): void {
    this.#timer.cancel();
  }
}
