/** A request that has ended, as the expressions of the access log see it. */
import type { LlmView } from "../../cel/llm-view.ts";
import type { RequestView } from "../../cel/request-view.ts";
import { Allowance } from "../../cel/request-work.ts";
import type { RequestRecord } from "../request-record.ts";
import type { StreamRecord } from "../stream-record.ts";
import { streamView } from "../stream-view.ts";
import type { LogLine } from "./log-line.ts";

/** What expressions read of a request besides its record. The request creates it when it is read. */
export interface ViewedRequest {
  readonly view: RequestView;
  /** What limits have read of the body; undefined if none did. */
  readonly llm: LlmView | undefined;
  /** The head of the response as the client got it: names and values in turn; empty if it got none. */
  readonly responseHeaders: readonly string[];
}

/** A request, a connection or a session that has ended. */
export interface Ended {
  readonly line: LogLine;
  /** Bounds the work of all expressions together: a client chooses what they read. */
  readonly allowance: Allowance;
  readonly view: RequestView;
}

/** A request that has ended. */
export class EndedRequest implements Ended {
  readonly record: RequestRecord;
  readonly line: LogLine;
  /** Bounds the work of all expressions together: a client chooses what they read. */
  readonly allowance = new Allowance();
  readonly #viewed: ViewedRequest;
  #view: RequestView | undefined;

  constructor(record: RequestRecord, line: LogLine, viewed: ViewedRequest) {
    this.record = record;
    this.line = line;
    this.#viewed = viewed;
  }

  get view(): RequestView {
    return (this.#view ??= this.#viewOf(this.#viewed));
  }

  #viewOf({ view, responseHeaders }: ViewedRequest): RequestView {
    return { ...view, llm: this.#llm(), responseHeaders, log: this.line };
  }

  #llm(): LlmView {
    const { clientModel, requestModel, usage } = this.record;
    return {
      ...this.#viewed.llm,
      ...(clientModel !== undefined && { clientModel }),
      ...(requestModel !== undefined && { requestModel }),
      responseModel: usage?.model,
      inputTokens: usage?.input,
      outputTokens: usage?.output,
      totalTokens: usage?.total,
      cachedInputTokens: usage?.cachedInputTokens,
      cacheCreationTokens: usage?.cacheCreationTokens,
      reasoningTokens: usage?.reasoningTokens,
      cost: usage?.cost,
    };
  }
}

/** A connection or a session that has ended. */
export class EndedStream implements Ended {
  readonly line: LogLine;
  readonly allowance = new Allowance();
  readonly #record: StreamRecord;

  constructor(record: StreamRecord, line: LogLine) {
    this.#record = record;
    this.line = line;
  }

  get view(): RequestView {
    return { ...streamView(this.#record), log: this.line };
  }
}
