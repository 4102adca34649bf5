/**
 * A bounded queue of spans or log records, which are written when they are added, and sent in batches, one batch at a
 * time.
 */
import { WireWriter } from "@gatewayproxy/protos/wire-writer";
import { errorMessage } from "../text/thrown-value.ts";
import type { Clock, Timer } from "../timing/clock.ts";
import type { BatchSettings } from "../tracing/otel-variables.ts";
import type { ExportObserver } from "./export-observer.ts";
import type { OtlpSender } from "./otlp-sender.ts";

/** How the items of a queue are written as OTLP. */
export interface WrittenItems<Item> {
  /** Writes an item as a field of the message that all items of a batch share. Never throws. */
  readonly write: (writer: WireWriter, item: Item) => void;
  /** Makes a message of written items. */
  readonly messageOf: (parts: readonly Buffer[]) => Buffer;
}

/** The bounds of a queue, and what it works with. */
export interface ExportQueueOptions<Item> {
  readonly batch: BatchSettings;
  readonly items: WrittenItems<Item>;
  readonly sender: OtlpSender;
  /** Times the batches. */
  readonly clock: Clock;
  readonly observer: ExportObserver;
}

/** Items of one message. */
interface Batch {
  readonly parts: Buffer[];
  items: number;
  bytes: number;
}

/** Bytes that are copied out of the writer at once. */
const partBytes = 32_768;
/** A collector may reject messages of more than 4 MiB (the default of gRPC). */
const maxBatchBytes = 1_048_576;
/** Items that would wait beyond these bytes are dropped, whatever their number is. */
const maxQueueBytes = 33_554_432;

/** Items that are added together are queued together, or dropped together. */
export class ExportQueue<Item> {
  readonly #options: ExportQueueOptions<Item>;
  /** Items that are queued or being exported. */
  #pending = 0;
  #isClosed = false;
  readonly #writer = new WireWriter();
  /** Batches that are complete, the oldest first. */
  readonly #complete: Batch[] = [];
  #open: Batch = newBatch();
  /** Of the batches that wait or are being exported, and of the open one without what is in the writer. */
  #bytes = 0;
  /** Completes the open batch; undefined while it is empty. */
  #timer: Timer | undefined;
  /** The exports in progress. Never rejects. */
  #exports: Promise<void> | undefined;

  constructor(options: ExportQueueOptions<Item>) {
    this.#options = options;
  }

  /** Takes all of the items, or drops them if the queue is full. Never throws, and never waits. */
  add(items: readonly Item[]): void {
    const { batch, items: written, clock, observer } = this.#options;
    if (this.#isClosed || this.#pending + items.length > batch.maxQueueSize || this.#bytes >= maxQueueBytes) {
      observer.ended("dropped", items.length);
      return;
    }
    this.#pending += items.length;
    for (const item of items) {
      written.write(this.#writer, item);
      this.#open.items++;
      if (this.#writer.length >= partBytes) this.#takePart();
      if (this.#open.items >= batch.maxExportBatchSize || this.#open.bytes >= maxBatchBytes) this.#completeBatch();
    }
    if (this.#open.items > 0) {
      this.#timer ??= clock.setTimer(batch.scheduledDelayMs, () => this.#completeBatch());
    }
  }

  /** Sends what is queued, within `timeoutMs`. Never rejects. */
  close(timeoutMs: number): Promise<void> {
    this.#isClosed = true;
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
    this.#bytes += part.length;
  }

  #completeBatch(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#open.items === 0) return;
    this.#takePart();
    this.#complete.push(this.#open);
    this.#open = newBatch();
    this.#exports ??= this.#export();
  }

  /** Sends the complete batches, one at a time. Never rejects. */
  async #export(): Promise<void> {
    const { sender, observer, items } = this.#options;
    for (let batch = this.#complete.shift(); batch !== undefined; batch = this.#complete.shift()) {
      let isTaken = true;
      try {
        await sender.send(items.messageOf(batch.parts));
      } catch (error) {
        isTaken = false;
        observer.problem(errorMessage(error));
      }
      this.#bytes -= batch.bytes;
      this.#pending -= batch.items;
      observer.ended(isTaken ? "exported" : "failed", batch.items);
    }
    this.#exports = undefined;
  }
}

function newBatch(): Batch {
  return { parts: [], items: 0, bytes: 0 };
}

/** Waits for the end of the exports, at most for `timeoutMs`. Never rejects: what fails was reported by an export. */
async function endWithin(timeoutMs: number, end: Promise<void>): Promise<void> {
  const { promise: timeout, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => resolve(undefined), timeoutMs);
  await Promise.race([end.catch(() => undefined), timeout]);
  clearTimeout(timer);
}
