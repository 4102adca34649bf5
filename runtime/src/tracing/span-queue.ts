/** A bounded queue of spans, which are written when they are added, and sent in batches, one batch at a time. */
import { WireWriter } from "@gatewayproxy/protos/wire-writer";
import type { OtlpSender } from "../otlp/otlp-sender.ts";
import { errorMessage } from "../text/thrown-value.ts";
import type { Clock, Timer } from "../timing/clock.ts";
import type { BatchSettings } from "./otel-variables.ts";
import { type SpanOrigin, spanMessages, writeSpan } from "./otlp-spans.ts";
import { endWithin, PendingExports } from "./pending-exports.ts";
import type { FinishedSpan, SpanExportObserver, SpanSink } from "./span.ts";

/** The bounds of a queue, and what it works with. */
export interface SpanQueueOptions {
  readonly batch: BatchSettings;
  readonly origin: SpanOrigin;
  readonly sender: OtlpSender;
  /** Times the batches. */
  readonly clock: Clock;
  readonly observer: SpanExportObserver;
}

/** Spans of one message. */
interface Batch {
  readonly parts: Buffer[];
  spans: number;
  bytes: number;
}

/** Bytes that are copied out of the writer at once. */
const partBytes = 32_768;
/** A collector may reject messages of more than 4 MiB (the default of gRPC). */
const maxBatchBytes = 1_048_576;

/** The spans of a request are queued together, or dropped together. */
export class SpanQueue implements SpanSink {
  readonly #options: SpanQueueOptions;
  readonly #pending: PendingExports;
  readonly #messageOf: (spans: readonly Buffer[]) => Buffer;
  readonly #writer = new WireWriter();
  /** Batches that are complete, the oldest first. */
  readonly #complete: Batch[] = [];
  #open: Batch = newBatch();
  /** Completes the open batch; undefined while it is empty. */
  #timer: Timer | undefined;
  /** The exports in progress. Never rejects. */
  #exports: Promise<void> | undefined;

  constructor(options: SpanQueueOptions) {
    const { batch, origin, observer } = options;
    this.#options = options;
    this.#messageOf = spanMessages(origin);
    this.#pending = new PendingExports(batch.maxQueueSize, (outcome, count) => observer.spansEnded(outcome, count));
  }

  add(spans: readonly FinishedSpan[]): void {
    if (!this.#pending.take(spans.length)) return;
    const { maxExportBatchSize, scheduledDelayMs } = this.#options.batch;
    for (const span of spans) {
      writeSpan(this.#writer, span);
      this.#open.spans++;
      if (this.#writer.length >= partBytes) this.#takePart();
      if (this.#open.spans >= maxExportBatchSize || this.#open.bytes >= maxBatchBytes) this.#completeBatch();
    }
    if (this.#open.spans > 0) {
      this.#timer ??= this.#options.clock.setTimer(scheduledDelayMs, () => this.#completeBatch());
    }
  }

  close(timeoutMs: number): Promise<void> {
    this.#pending.close();
    this.#completeBatch();
    const end = async (): Promise<void> => {
      await this.#exports;
      this.#options.sender.close();
    };
    return endWithin(timeoutMs, end());
  }

  #takePart(): void {
    const part = this.#writer.take();
    this.#open.parts.push(part);
    this.#open.bytes += part.length;
  }

  #completeBatch(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#open.spans === 0) return;
    this.#takePart();
    this.#complete.push(this.#open);
    this.#open = newBatch();
    this.#exports ??= this.#export();
  }

  /** Sends the complete batches, one at a time. Never rejects. */
  async #export(): Promise<void> {
    const { sender, observer } = this.#options;
    for (let batch = this.#complete.shift(); batch !== undefined; batch = this.#complete.shift()) {
      let isTaken = true;
      try {
        await sender.send(this.#messageOf(batch.parts));
      } catch (error) {
        isTaken = false;
        observer.problem(errorMessage(error));
      }
      this.#pending.ended(isTaken ? "exported" : "failed", batch.spans);
    }
    this.#exports = undefined;
  }
}

function newBatch(): Batch {
  return { parts: [], spans: 0, bytes: 0 };
}
