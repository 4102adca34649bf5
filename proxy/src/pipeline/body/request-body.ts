/**
 * The body of a request to a backend. It is forwarded as it arrives, with back-pressure. Its first bytes are kept, up to a
 * bound (`smallBodyBytes` by default), so that a failed call can be repeated and a mirror can get a copy. A small body of known
 * length is read completely first, and sent in one write with the head.
 */
import type { BodyReceiver, IncomingBody } from "@gatewayproxy/http/ports";
import { AttemptBody, type AttemptSource } from "./attempt-body.ts";
import { type BodyShare, smallBodyBytes } from "./body-budget.ts";
import { ChunkBuffer } from "@gatewayproxy/runtime/chunk-buffer";
import { TokenIds } from "../../llm/token-ids.ts";

/** Where a rule retries or mirrors, its bodies are kept up to this length. */
export const largeBodyBytes = 1024 * 1024;

/** The state of a body while it is forwarded. */
interface BodyRecord {
  requestBytes: number;
  /** What ids of tokens in it lack to be four bytes long, where they are looked for. */
  missingIdBytes: number;
}

/** A request's body and where its bytes are counted as they arrive. */
export interface BodySource {
  readonly body: IncomingBody;
  readonly record: BodyRecord;
  /** Of the memory for bodies, which is given back by `release`. */
  readonly share: BodyShare;
  /** Takes what fails where the body is used later than its user could see. */
  readonly owner: { fault(error: unknown): void };
}

/**
 * The body of one request, which is read at most once from the client and may be opened for several attempts. Nothing
 * is read before `open`, `collect`, `peek` or `whenReady`.
 */
export class RequestBody implements BodyReceiver, AttemptSource {
  readonly #source: IncomingBody;
  readonly #record: BodyRecord;
  #tokenIds: TokenIds | undefined;
  readonly #share: BodyShare;
  readonly #owner: BodySource["owner"];
  #isOutOfMemory = false;
  /** Everything that has come; absent once that was more than is kept. */
  #kept: ChunkBuffer | undefined = new ChunkBuffer();
  #limitBytes = smallBodyBytes;
  /** Whether `replaceBy` keeps the body as it came. */
  #keepsOriginal = false;
  #isReplaced = false;
  /** The body as it came, while an edited one is kept in its place. */
  #original: ChunkBuffer | undefined;
  /**
   * The state of the client's stream.
   * - `unread`: no byte was requested yet. The first reader moves it to `flowing`.
   * - `flowing`: bytes arrive. The end of the body moves it to `ended`, and the loss of the client to `broken`.
   * - `ended`: the body has arrived completely.
   * - `broken`: the client has left before the end; readers get an error.
   */
  #state: "unread" | "flowing" | "ended" | "broken" = "unread";
  /** The attempt that gets what comes next. */
  #attempt: AttemptBody | undefined;
  #awaitingWhole: ((whole: Buffer | undefined) => void)[] = [];
  #awaitingStart: ((start: Buffer) => void) | undefined;

  constructor({ body, record, share, owner }: BodySource) {
    this.#source = body;
    this.#owner = owner;
    this.#share = share;
    this.#record = record;
  }

  /** Looks for ids of tokens, for an estimate of what the body costs; called before any of it has been let go. */
  countTokenIds(): void {
    this.#tokenIds = new TokenIds();
    for (const piece of this.#kept?.pieces() ?? []) this.#tokenIds.push(piece);
    this.#record.missingIdBytes = this.#tokenIds.missingBytes;
  }

  /** Keeps up to `bytes` where less was kept so far; has no effect on what has been given up already. */
  keepUpTo(bytes: number): void {
    this.#limitBytes = Math.max(this.#limitBytes, bytes);
  }

  /**
   * Calls `done` when the body may be sent: for a small one of known length when it is whole, else at once. With false
   * where there is no memory for it.
   */
  whenReady(headers: readonly string[], done: (isReady: boolean) => void): void {
    const length = contentLengthOf(headers);
    if (length === undefined || length > smallBodyBytes) done(true);
    else this.collect((whole) => done(whole !== undefined));
  }

  /** Whether the body was let go because other bodies have all of the memory. */
  get isOutOfMemory(): boolean {
    return this.#isOutOfMemory;
  }

  /** Whether some of it is held in memory. */
  get isHeld(): boolean {
    return !this.#share.isEmpty;
  }

  /** Whether what was held has been let go. */
  get isReleased(): boolean {
    return this.#kept === undefined;
  }

  /** Keeps the body as it comes beside an edited one, if there is memory for both, so that `restore` can bring it back. */
  keepOriginal(): void {
    this.#keepsOriginal = true;
  }

  /** Holds `bytes` in the place of a body that has come whole. @returns false where there is no memory for them. */
  replaceBy(bytes: Buffer): boolean {
    if (this.#keepsOriginal && !this.#isReplaced) this.#original = this.#kept;
    this.#isReplaced = true;
    this.#kept = new ChunkBuffer();
    this.#kept.push(bytes);
    const bytesOfEdited = this.#kept.memoryBytes;
    if (this.#original !== undefined && !this.#share.growTo(this.#original.memoryBytes + bytesOfEdited)) {
      this.#original = undefined;
    }
    this.#isOutOfMemory = !this.#share.growTo(bytesOfEdited);
    return !this.#isOutOfMemory;
  }

  /** Whether `restore` can bring back the body as it came. */
  get isRestorable(): boolean {
    return this.isReplayable && (!this.#isReplaced || this.#original !== undefined);
  }

  /** Holds the body as it came again, in the place of an edited one. To be called only if `isRestorable`. */
  restore(): void {
    if (this.#original === undefined) return;
    this.#kept = this.#original;
    this.#original = undefined;
    this.#isReplaced = false;
  }

  /** Lets go of what is held; the body is not needed any more. */
  release(): void {
    this.#kept = undefined;
    this.#original = undefined;
    this.#share.close();
  }

  /** No call will be made again: lets go of what is kept for that. */
  keepNoMore(): void {
    if (this.#awaitingWhole.length === 0) this.release();
  }

  /**
   * Calls `done` once with the whole body, or with nothing when it is longer than what is kept. Never calls it when the
   * client goes away meanwhile.
   */
  collect(done: (whole: Buffer | undefined) => void): void {
    if (this.#kept === undefined) {
      done(undefined);
    } else if (this.#state === "ended") {
      done(this.#kept.join());
    } else {
      this.#awaitingWhole.push(done);
      this.#begin();
    }
  }

  /**
   * Calls `done` once with the first bytes of the body, before they count against what is kept, so that `done` may still
   * ask for more to be kept; empty: the body is empty, or its first bytes have been let go. Never calls it when the client
   * goes away meanwhile.
   */
  peek(done: (start: Buffer) => void): void {
    if (this.#kept === undefined || this.#state === "ended" || this.#kept.length > 0) {
      done(this.#kept?.join() ?? Buffer.alloc(0));
      return;
    }
    this.#awaitingStart = done;
    this.#begin();
  }

  /** Whether `open` can give the body from its first byte. */
  get isReplayable(): boolean {
    return this.#kept !== undefined && this.#state !== "broken";
  }

  /** What the rest of it waits for: the client to send, or a call to read. Absent where nothing is read, or all has come. */
  get waitsFor(): "client" | "call" | undefined {
    if (this.#state !== "flowing") return undefined;
    return this.#source.isPaused ? "call" : "client";
  }

  /**
   * Returns the body from its first byte, for one attempt: a buffer if it is small and has arrived completely. The body of the
   * client is read, and dropped or kept, after the attempt has been cancelled.
   *
   * @param headers of the attempt.
   * @param isLast no attempt follows: a complete body is released when it has been sent.
   */
  open(headers: readonly string[], isLast: boolean): Buffer | AttemptBody {
    if (this.#state === "ended" && this.#kept !== undefined) {
      const whole = this.#kept.join();
      // A body without a length would be sent in chunks, which not every server accepts.
      const isSmall = whole.length <= smallBodyBytes || contentLengthOf(headers) === undefined;
      return isSmall ? whole : this.#attemptOf(whole, isLast);
    }
    const attempt = new AttemptBody(this, this.#kept?.pieces().slice() ?? []);
    this.#attempt = attempt;
    if (this.#state === "broken") attempt.break();
    else this.#begin();
    return attempt;
  }

  #attemptOf(whole: Buffer, isLast: boolean): AttemptBody {
    const onSent = (): void => {
      if (isLast) this.keepNoMore();
    };
    const attempt = new AttemptBody({ flow: ignore, hold: ignore, onSent, onCancelled: ignore }, [whole]);
    attempt.end();
    return attempt;
  }

  flow(): void {
    this.#source.resume();
  }

  hold(): void {
    if (this.#state === "flowing" && !this.#source.isPaused) this.#source.pause();
  }

  onSent(): void {
    this.#attempt = undefined;
  }

  /** What the client still sends is read and dropped (or kept), so that its connection stays usable. */
  onCancelled(attempt: AttemptBody): void {
    if (this.#attempt === attempt) this.#attempt = undefined;
    this.#source.resume();
  }

  #begin(): void {
    if (this.#state !== "unread") return;
    this.#state = "flowing";
    this.#source.read(this);
  }

  onData(chunk: Buffer): void {
    this.#record.requestBytes += chunk.length;
    if (this.#tokenIds !== undefined) {
      this.#tokenIds.push(chunk);
      this.#record.missingIdBytes = this.#tokenIds.missingBytes;
    }
    this.#tellStart(chunk);
    if (this.#kept !== undefined && !this.#keep(this.#kept, chunk)) {
      // The first reader gets what was kept before it is let go; any later one would get a torn body.
      this.release();
      this.#tellWhole(undefined);
    }
    this.#attempt?.push(chunk);
  }

  /** @returns whether there is room for it. */
  #keep(kept: ChunkBuffer, chunk: Buffer): boolean {
    if (kept.length + chunk.length > this.#limitBytes) return false;
    kept.push(chunk);
    this.#isOutOfMemory = !this.#share.growTo(kept.memoryBytes);
    return !this.#isOutOfMemory;
  }

  onEnd(): void {
    this.#state = "ended";
    this.#tellStart(Buffer.alloc(0));
    this.#attempt?.end();
    if (this.#awaitingWhole.length > 0) this.#tellWhole(this.#kept?.join());
  }

  onAborted(): void {
    this.#state = "broken";
    this.#awaitingWhole = [];
    this.#awaitingStart = undefined;
    this.#attempt?.break();
  }

  #tellStart(start: Buffer): void {
    const done = this.#awaitingStart;
    if (done === undefined) return;
    this.#awaitingStart = undefined;
    try {
      done(start);
    } catch (error) {
      this.fault(error);
    }
  }

  #tellWhole(whole: Buffer | undefined): void {
    const awaiting = this.#awaitingWhole;
    this.#awaitingWhole = [];
    for (const done of awaiting) {
      try {
        done(whole);
      } catch (error) {
        this.fault(error);
      }
    }
  }

  /** Using the body has failed inside the proxy. */
  fault(error: unknown): void {
    this.#owner.fault(error);
  }
}

function ignore(): void {
  // The body is complete, and its client is not involved.
}

function contentLengthOf(headers: readonly string[]): number | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? "";
    if (name.length === 14 && name.toLowerCase() === "content-length") return Number(headers[i + 1]);
  }
  return undefined;
}
