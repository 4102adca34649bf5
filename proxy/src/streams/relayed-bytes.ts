/** Reports the bytes of one connection or session to the observer while it is open, and at its end. */
import type { StreamObserver, StreamRecord } from "../telemetry/stream-record.ts";

/** The bytes that were reported until now. */
export class RelayedBytes {
  readonly #record: StreamRecord;
  readonly #observer: StreamObserver;
  #receivedBytes = 0;
  #sentBytes = 0;

  constructor(record: StreamRecord, observer: StreamObserver) {
    this.#record = record;
    this.#observer = observer;
  }

  /** Reports the bytes of the record since the last call. Returns whether there are any. */
  report(): boolean {
    const { receivedBytes, sentBytes } = this.#record;
    const received = receivedBytes - this.#receivedBytes;
    const sent = sentBytes - this.#sentBytes;
    if (received === 0 && sent === 0) return false;
    this.#receivedBytes = receivedBytes;
    this.#sentBytes = sentBytes;
    this.#observer.bytesRelayed(this.#record, received, sent);
    return true;
  }
}
