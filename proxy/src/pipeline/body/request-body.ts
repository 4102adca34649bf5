/**
 * The body of a request to a backend. It is forwarded as it arrives, with back-pressure. Its first bytes are kept, up
 * to a bound (`smallBodyBytes` by default), so that a failed attempt can be repeated and a mirror can get a copy. A
 * small body of known length is read completely first, and sent in one write with the head. Its trailers are kept with
 * it, and every attempt gets them, unless the body was edited: they may describe the original.
 */
import type { BodyReceiver, FieldList, IncomingBody } from "@gatewayproxy/http/ports";
import { AttemptBody, type AttemptSource } from "./attempt-body.ts";
import { type BodyShare, smallBodyBytes } from "./body-budget.ts";
import { ChunkBuffer } from "@gatewayproxy/runtime/chunk-buffer";
import { TokenIds } from "../../llm/token-ids.ts";

/** Maximum bytes of a body that are kept for rules with retries or mirrors. */
export const largeBodyBytes = 1024 * 1024;

/** The state of a body while it is forwarded. */
interface BodyRecord {
  requestBytes: number;
  /** The bytes by which token ids in the body are shorter than four bytes each; 0 unless `countTokenIds` was called. */
  missingIdBytes: number;
}

/** Selects the trailers that a backend gets. */
export interface TrailerSelection {
  /** @param trailers as received; not empty. @returns those to send. */
  trailersToSend(trailers: FieldList): FieldList;
}

const noTrailers: FieldList = [];

/** The source of a request's body, and the services that it uses. */
export interface BodySource {
  readonly body: IncomingBody;
  /** Counts the bytes as they arrive. */
  readonly record: BodyRecord;
  /** The share of the memory for bodies; `release` closes it. */
  readonly share: BodyShare;
  /** Receives errors of callbacks that run after their caller has returned. */
  readonly owner: { fault(error: unknown): void };
}

/**
 * The body of one request. It is read from the client at most once, and may be opened for several attempts. Reading
 * begins with the first call of `open`, `collect`, `peek` or `whenReady`.
 */
export class RequestBody implements BodyReceiver, AttemptSource {
  readonly #source: IncomingBody;
  readonly #record: BodyRecord;
  #tokenIds: TokenIds | undefined;
  readonly #share: BodyShare;
  readonly #owner: BodySource["owner"];
  #isOutOfMemory = false;
  /** All bytes that have arrived; undefined after they have exceeded the bound, or after `release`. */
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
   * - `broken`: the client has disconnected before the end; readers get an error.
   */
  #state: "unread" | "flowing" | "ended" | "broken" = "unread";
  /** The attempt that gets the next bytes, and what selects its trailers. */
  #attempt: AttemptBody | undefined;
  #selection: TrailerSelection | undefined;
  /** As received; empty until the end of the body. */
  #trailers = noTrailers;
  #awaitingWhole: ((whole: Buffer | undefined) => void)[] = [];
  #awaitingStart: ((start: Buffer) => void) | undefined;

  constructor({ body, record, share, owner }: BodySource) {
    this.#source = body;
    this.#owner = owner;
    this.#share = share;
    this.#record = record;
  }

  /** Searches the body for token ids, to estimate its tokens. Must be called before bytes of the body are released. */
  countTokenIds(): void {
    this.#tokenIds = new TokenIds();
    for (const piece of this.#kept?.pieces() ?? []) this.#tokenIds.push(piece);
    this.#record.missingIdBytes = this.#tokenIds.missingBytes;
  }

  /** Raises the bound of the kept bytes to `bytes`. Has no effect on a body that has been released. */
  keepUpTo(bytes: number): void {
    this.#limitBytes = Math.max(this.#limitBytes, bytes);
  }

  /**
   * Calls `done` when the body may be sent: when it is complete if it is small and has a known length, else at once.
   * The argument is false if there is no memory for it.
   *
   * @param headers of the request: names and values alternate.
   */
  whenReady(headers: readonly string[], done: (isReady: boolean) => void): void {
    const length = contentLengthOf(headers);
    if (length === undefined || length > smallBodyBytes) done(true);
    else this.collect((whole) => done(whole !== undefined));
  }

  /** The address of the client. */
  get client(): string {
    return this.#share.client;
  }

  /** Whether the body was released because other bodies use all of the memory. */
  get isOutOfMemory(): boolean {
    return this.#isOutOfMemory;
  }

  /** Whether bytes of the body are in memory. */
  get isHeld(): boolean {
    return !this.#share.isEmpty;
  }

  /** Whether the kept bytes have been released. */
  get isReleased(): boolean {
    return this.#kept === undefined;
  }

  /**
   * Keeps the body as it comes beside an edited one, if there is memory for both, so that `restore` can bring it back.
   */
  keepOriginal(): void {
    this.#keepsOriginal = true;
  }

  /** Replaces a complete body by `bytes`. @returns false if there is no memory for them. */
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

  /** Releases the kept bytes and their memory. The body cannot be opened from its first byte after that. */
  release(): void {
    this.#kept = undefined;
    this.#original = undefined;
    this.#share.close();
  }

  /** Releases the kept bytes unless `collect` waits for them. Called when no further attempt will be made. */
  keepNoMore(): void {
    if (this.#awaitingWhole.length === 0) this.release();
  }

  /**
   * Calls `done` once with the complete body, or with undefined if it exceeds the bound or the memory for bodies. If
   * the client disconnects first, `done` is not called.
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
   * Calls `done` once with the first bytes of the body, before the bound of the kept bytes is checked, so that `done`
   * can raise it by `keepUpTo`. The bytes are empty if the body is empty or has been released. If the client
   * disconnects first, `done` is not called.
   */
  peek(done: (start: Buffer) => void): void {
    if (this.#kept === undefined || this.#state === "ended" || this.#kept.length > 0) {
      done(this.#kept?.join() ?? Buffer.alloc(0));
      return;
    }
    this.#awaitingStart = done;
    this.#begin();
  }

  /** Whether `open` can return the body from its first byte. */
  get isReplayable(): boolean {
    return this.#kept !== undefined && this.#state !== "broken";
  }

  /**
   * Whether the rest of the body waits for the client to send or for an attempt (`call`) to read. Undefined before
   * reading begins, and after the end.
   */
  get waitsFor(): "client" | "call" | undefined {
    if (this.#state !== "flowing") return undefined;
    return this.#source.isPaused ? "call" : "client";
  }

  /**
   * Returns the body from its first byte, for one attempt: a buffer if it is small and has arrived completely. If the
   * attempt is cancelled, the body of the client is still read, and dropped or kept.
   *
   * @param headers of the attempt: names and values alternate.
   * @param isLast whether no attempt follows. A complete body is then released after it has been sent.
   * @param selection called at the end of the body, if it has trailers.
   */
  open(headers: readonly string[], isLast: boolean, selection: TrailerSelection): Buffer | AttemptBody {
    this.#selection = selection;
    if (this.#state === "ended" && this.#kept !== undefined) {
      const whole = this.#kept.join();
      const trailers = this.#trailersToSend();
      if (trailers.length > 0) return this.#attemptOf(whole, isLast, trailers);
      // A body without a length would be sent in chunks, which not every server accepts.
      const isSmall = whole.length <= smallBodyBytes || contentLengthOf(headers) === undefined;
      return isSmall ? whole : this.#attemptOf(whole, isLast, noTrailers);
    }
    const attempt = new AttemptBody(this, this.#kept?.pieces().slice() ?? []);
    this.#attempt = attempt;
    if (this.#state === "broken") attempt.break();
    else this.#begin();
    return attempt;
  }

  #trailersToSend(): FieldList {
    if (this.#trailers.length === 0 || this.#isReplaced) return noTrailers;
    return this.#selection?.trailersToSend(this.#trailers) ?? noTrailers;
  }

  #attemptOf(whole: Buffer, isLast: boolean, trailers: FieldList): AttemptBody {
    const onSent = (): void => {
      if (isLast) this.keepNoMore();
    };
    const pieces = whole.length === 0 ? [] : [whole];
    const attempt = new AttemptBody({ flow: ignore, hold: ignore, onSent, onCancelled: ignore }, pieces);
    attempt.end(trailers);
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

  /** Reads the rest of the body and drops or keeps it, so that the client's connection stays usable. */
  onCancelled(attempt: AttemptBody): void {
    if (this.#attempt === attempt) this.#attempt = undefined;
    this.#source.resume();
  }

  #begin(): void {
    if (this.#state !== "unread") return;
    this.#state = "flowing";
    this.#source.read(this);
  }

  onData(chunk: Buffer, isExclusive = false): void {
    const isPeeked = this.#awaitingStart !== undefined;
    this.#record.requestBytes += chunk.length;
    if (this.#tokenIds !== undefined) {
      this.#tokenIds.push(chunk);
      this.#record.missingIdBytes = this.#tokenIds.missingBytes;
    }
    this.#tellStart(chunk);
    if (this.#kept !== undefined && !this.#keep(this.#kept, chunk)) {
      // The attempt has a copy of the list of kept bytes. A later attempt would lack the first bytes of the body.
      this.release();
      this.#tellWhole(undefined);
    }
    this.#attempt?.push(chunk, isExclusive && !isPeeked && this.#kept === undefined);
  }

  /** @returns whether the bound and the memory for bodies permit to keep `chunk`. */
  #keep(kept: ChunkBuffer, chunk: Buffer): boolean {
    if (kept.length + chunk.length > this.#limitBytes) return false;
    kept.push(chunk);
    this.#isOutOfMemory = !this.#share.growTo(kept.memoryBytes);
    return !this.#isOutOfMemory;
  }

  onEnd(trailers: FieldList): void {
    this.#state = "ended";
    if (trailers.length > 0) this.#keepTrailers(trailers);
    this.#tellStart(Buffer.alloc(0));
    this.#attempt?.end(this.#trailersToSend());
    if (this.#awaitingWhole.length > 0) this.#tellWhole(this.#kept?.join());
  }

  /** Trailers for which there is no memory are dropped, as any intermediary may do (RFC 9110 §6.5.1). */
  #keepTrailers(trailers: FieldList): void {
    const bytes = trailers.reduce((sum, text) => sum + text.length, 0);
    if (this.#share.growTo((this.#kept?.memoryBytes ?? 0) + bytes)) this.#trailers = trailers;
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

  /** Reports an internal error in the use of the body to its owner. */
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
