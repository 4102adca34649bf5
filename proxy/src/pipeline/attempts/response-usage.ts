/**
 * The usage of a response to one attempt: reads it from the bytes that pass, takes an event that the client did not ask
 * for out of a stream, and charges the limits once, whatever becomes of the attempt. The usage of earlier attempts is
 * charged with it.
 */
import { fieldOf } from "@gatewayproxy/http/fields";
import type { AiBackend } from "../../ir/snapshot.ts";
import type { TokenUsage, UsageOutcome } from "../../ir/usage.ts";
import { generatesNothing, type ProviderTarget } from "../../llm/charging.ts";
import type { OutputMeans } from "../output-means.ts";
import { withCost } from "../../llm/price.ts";
import { sumOfUsages } from "../../llm/usage-sum.ts";
import { type UsageEdit, UsageEventFilter } from "../../llm/usage-event-filter.ts";
import { usageOfFields } from "../../llm/usage-fields.ts";
import {
  createUsageReader,
  type Ending,
  estimateOfRequest,
  mayBePlainEvents,
  type ResponseHead,
  type UsageReader,
} from "../../llm/usage-reader.ts";
import type { RequestRecord } from "../../telemetry/request-record.ts";
import type { RequestReservation } from "../request-reservation.ts";
import { removeField } from "./fields.ts";

/** One attempt, and where its usage goes. */
export interface ResponseUsageOptions {
  /** Gets the usage, or why it was not read. */
  readonly record: RequestRecord;
  /** Is charged; undefined if the request has no limits. */
  readonly reservation: RequestReservation | undefined;
  /** The request as it was sent. */
  readonly request: ProviderTarget;
  /** Address of the client; an IPv6 address as its network. */
  readonly client: string;
  /** Whether tokens are counted, for a limit or for the metrics. Otherwise the stream is only edited. */
  readonly isCounted: boolean;
  /** The provider that responds, whose prices apply; undefined for any other backend. */
  readonly ai: AiBackend | undefined;
  /** The usage of earlier attempts; undefined if they cost nothing. */
  readonly before: TokenUsage | undefined;
  /** The usage if the response and earlier attempts cost nothing; undefined: none. */
  readonly atLeast: TokenUsage | undefined;
  /** The key of the backend. */
  readonly backend: string;
  /** Learns from the usage; undefined if no limit reserves estimates. */
  readonly outputMeans: OutputMeans | undefined;
  /** What becomes of the usage event of a stream; undefined if the client gets it. */
  readonly edit: UsageEdit | undefined;
  /** Called when the first token of a stream has come; undefined: it is not looked for. */
  readonly onFirstToken: (() => void) | undefined;
}

interface UsageHead extends ResponseHead {
  requestBytes: number;
}

const nothing = Buffer.alloc(0);

/** `begin` is called with the head of the response, `push` with its bytes, and `settle` at the end, in this order. */
export class ResponseUsage {
  readonly #options: ResponseUsageOptions;
  /**
   * - `awaitingHead`: no response has begun.
   * - `reading`: `begin` was called; `#reader` gets the bytes.
   * - `settling`: `settle` was called, and a compressed response is decoded to its end.
   * - `settled`: the usage is known, and charged.
   */
  #state: "awaitingHead" | "reading" | "settling" | "settled" = "awaitingHead";
  #head: UsageHead | undefined;
  #reader: UsageReader | undefined;
  #filter: UsageEventFilter | undefined;
  #onSettled: (() => void)[] = [];

  constructor(options: ResponseUsageOptions) {
    this.#options = options;
  }

  /** Whether the usage is known, and charged. */
  get isSettled(): boolean {
    return this.#state === "settled";
  }

  /** Whether a response has begun, and its usage is not known yet. */
  get isReading(): boolean {
    return this.#reader !== undefined && this.#state !== "settled";
  }

  /**
   * An event of a stream that `end` or `release` returns, unless a later event replaces it; undefined if none is held.
   */
  get heldEvent(): object | undefined {
    return this.#filter?.pending;
  }

  /** Reads the response with this head. @param headers flat, names lower case; edited where the body changes. */
  begin(status: number, headers: string[]): void {
    this.#read(status, headers);
    const { edit } = this.#options;
    if (edit === undefined || this.#head === undefined || !mayBePlainEvents(this.#head)) return;
    this.#filter = new UsageEventFilter(edit);
    // The stream gets shorter, or longer.
    removeField(headers, "content-length");
  }

  /** As `begin`, for a response whose client has left: it is read, and not edited. */
  beginAbandoned(status: number, headers: readonly string[]): void {
    this.#read(status, headers);
  }

  #read(status: number, headers: readonly string[]): void {
    const { record, request, client, onFirstToken } = this.#options;
    const contentType = fieldOf(headers, "content-type");
    const contentEncoding = fieldOf(headers, "content-encoding");
    const usage = usageOfFields(headers);
    this.#head = {
      status,
      requestBytes: bytesForEstimate(record),
      target: request,
      client,
      ...(contentType !== undefined && { contentType }),
      ...(contentEncoding !== undefined && { contentEncoding }),
      ...(usage !== undefined && { usage }),
      ...(onFirstToken !== undefined && status < 400 && { onFirstToken }),
    };
    this.#reader = createUsageReader(this.#head);
    this.#state = "reading";
  }

  /** Reads bytes of the response. @returns the bytes for the client. */
  push(bytes: Buffer): Buffer {
    this.#reader?.push(bytes);
    return this.#filter === undefined ? bytes : this.#filter.push(bytes);
  }

  /** Returns the held event, which does not wait for the end of the stream. */
  release(): Buffer {
    return this.#filter?.release() ?? nothing;
  }

  /** Returns the rest of the stream for the client. */
  end(): Buffer {
    return this.#filter?.end() ?? nothing;
  }

  /** The client has left: the rest of the response is only read. `done` is called when it is charged. */
  abandon(done: () => void): void {
    this.#filter = undefined;
    if (this.#state === "settled") done();
    else this.#onSettled.push(done);
  }

  /** The response has failed before the client got any of it: an estimate does not include it. */
  discard(): void {
    if (this.#state !== "reading") return;
    this.#reader = undefined;
    this.#state = "awaitingHead";
  }

  /**
   * Determines the usage and charges it, once. Calls `done` afterwards, immediately if possible.
   *
   * @param ending `cutShort` if the backend was interrupted: then a usage that was not reported is estimated, from the
   *   request alone if no response has begun.
   */
  settle(ending: Ending, done: () => void): void {
    if (this.#state === "settled") {
      done();
      return;
    }
    this.#onSettled.push(done);
    if (this.#state === "settling") return;
    this.#state = "settling";
    // The rest of the request may have been sent after the head had come.
    if (this.#head !== undefined) this.#head.requestBytes = bytesForEstimate(this.#options.record);
    if (this.#reader === undefined) this.#conclude(ending === "cutShort" ? this.#estimateOfRequest() : undefined);
    else this.#reader.end(ending, (outcome) => this.#conclude(outcome));
  }

  #estimateOfRequest(): UsageOutcome | undefined {
    const { isCounted, record, request } = this.#options;
    if (!isCounted || record.requestBytes === 0 || generatesNothing(request.path)) return undefined;
    return estimateOfRequest(bytesForEstimate(record));
  }

  /**
   * Returns the usage of this attempt and of those before it, if the request leaves it for another one. Its provider
   * may bill it, so it is estimated.
   */
  costIfLeft(): TokenUsage | undefined {
    const { before } = this.#options;
    const estimate = this.#estimateOfRequest();
    return estimate?.kind === "counted" ? sumOfUsages(before, this.#priced(estimate.usage)) : before;
  }

  #priced(usage: TokenUsage): TokenUsage {
    const { record, ai } = this.#options;
    const priced = withCost(usage, ai, record.clientModel);
    record.isUnpriced ||= ai?.prices !== undefined && priced.cost === undefined;
    return priced;
  }

  #conclude(outcome: UsageOutcome | undefined): void {
    const { record, reservation, before, atLeast, outputMeans, backend } = this.#options;
    this.#state = "settled";
    let usage = before ?? atLeast;
    if (outcome?.kind === "counted") {
      usage = sumOfUsages(before, this.#priced(outcome.usage));
      outputMeans?.learn(outcome.usage, backend, record.requestModel);
    } else if (outcome !== undefined && usage === undefined) {
      record.usageUnread = outcome.reason;
    }
    if (usage !== undefined) {
      record.usage = usage;
      reservation?.charge(usage);
    }
    for (const done of this.#onSettled.splice(0)) done();
  }
}

/** Of the request, with a token for each id of one. */
function bytesForEstimate({ requestBytes, missingIdBytes }: RequestRecord): number {
  return requestBytes + missingIdBytes;
}
