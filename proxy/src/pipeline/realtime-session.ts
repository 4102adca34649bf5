/**
 * A WebSocket to a model under a token limit: two byte streams, of which the one from the backend is read for the usage
 * of each response. The limits are charged before the client can see the end of the response. Once a limit has nothing
 * left, the gateway closes the session behind the message that used it up, with the status 1008.
 *
 * A client that leaves during a response, or after it has requested one, is charged like one that stays: the backend is
 * read until its usage, within the bounds of abandoned responses. A close frame of the client is not passed on
 * meanwhile, since the backend would stop.
 *
 * An event with another model than those of the session ends it, before the backend has the whole event. So does a
 * malformed frame. A response in progress is then charged like one whose client has left.
 */
import type { Duplex } from "node:stream";
import { FloodLimit } from "@gatewayproxy/http/http2/flood-limit";
import type { SwitchedStream } from "@gatewayproxy/http/ports";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { AiBackend } from "../ir/snapshot.ts";
import type { TokenUsage } from "../ir/usage.ts";
import { withCost } from "../llm/price.ts";
import { RealtimeInput, RealtimeUsage } from "../llm/realtime-usage.ts";
import {
  closeFrame,
  normalClosure,
  policyViolation,
  protocolError,
  WebSocketFrames,
} from "../llm/web-socket-frames.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { AbandonedResponse, AbandonedResponses } from "./attempts/abandoned-responses.ts";
import { halfClosedIdleTimeoutMs, idleTimeoutMs } from "./attempts/tunnel.ts";
import type { RequestReservation } from "./request-reservation.ts";

/** What a session needs of its request. */
export interface RealtimeSessionOptions {
  /** Gets the bytes, and the sum of the usage of all responses. */
  readonly record: RequestRecord;
  /** Is charged for each response. */
  readonly reservation: RequestReservation;
  /** Reads a response whose client has left. */
  readonly abandonedResponses: AbandonedResponses;
  /** Address of the client; an IPv6 address as its network. */
  readonly client: string;
  /** Returns the models that events of the client may name to a provider; undefined: any. */
  readonly modelsOf: (ai: AiBackend) => ReadonlySet<string> | undefined;
  /** Times the bound of responses. */
  readonly clock: Clock;
}

/**
 * Responses that a session may have at once, and in a second in the long run. Each is charged by a call of a rate limit
 * service, which others use too.
 */
const maxResponses = 1_000;
const maxResponsesPerSecond = 100;

const nothing = Buffer.alloc(0);

/** One session. `join` begins it; `readOn` is called when the client has left. */
export class RealtimeSession {
  readonly #options: RealtimeSessionOptions;
  readonly #input = new RealtimeInput();
  readonly #usage: RealtimeUsage;
  readonly #fromClient: WebSocketFrames;
  readonly #fromBackend: WebSocketFrames;
  readonly #responses: FloodLimit;
  /** The provider that has switched, whose prices apply. */
  #ai: AiBackend | undefined;
  #client: SwitchedStream | undefined;
  #backend: Duplex | undefined;
  /**
   * - `open`: bytes pass.
   * - `closing`: a limit has nothing left. The client gets a close frame behind the frame that passes.
   * - `closed`: the client has got a close frame, and neither side gets more.
   * - `abandoned`: the client has left, and the backend is read until the end of its response.
   * - `over`: everything is charged.
   */
  #state: "open" | "closing" | "closed" | "abandoned" | "over" = "open";
  #isPassing = false;
  /** The backend has ended more responses than any provider. */
  #isFlooded = false;
  #isRechecking = false;
  /** A response has been charged since the last call. */
  #mustRecheck = false;
  #read: AbandonedResponse | undefined;
  #onOver: (() => void)[] = [];

  constructor(options: RealtimeSessionOptions) {
    this.#options = options;
    this.#usage = new RealtimeUsage(this.#input, (usage) => this.#charge(usage));
    this.#fromClient = new WebSocketFrames(this.#input, "client");
    this.#fromBackend = new WebSocketFrames(this.#usage, "server");
    this.#responses = new FloodLimit("responses", options.clock, maxResponses, maxResponsesPerSecond);
  }

  /** Called before `join`. @param ai the provider that has switched. */
  onSwitched(ai: AiBackend | undefined): void {
    this.#ai = ai;
    this.#input.models = ai && this.#options.modelsOf(ai);
  }

  /**
   * Joins both ends. Their owners are notified of the end by their "close".
   *
   * @param onBroken called when the backend's connection broke, at most once and before the client's "close".
   */
  join(client: SwitchedStream, backend: Duplex, onBroken: () => void): void {
    this.#client = client;
    this.#backend = backend;
    client.setTimeout(idleTimeoutMs, () => client.destroy());
    this.#follow(client, backend, (chunk) => this.#toBackend(chunk));
    this.#follow(backend, client, (chunk) => this.#toClient(chunk));
    const shortenWait = (): void => void client.setTimeout(halfClosedIdleTimeoutMs);
    client.once("end", shortenWait);
    backend.once("end", shortenWait);
    client.on("error", () => this.#leave());
    client.on("close", () => this.#leave());
    backend.on("error", () => {
      if (this.#state === "open") onBroken();
      client.destroy();
    });
    backend.on("close", () => {
      this.#settle();
      client.end(() => client.destroy());
    });
  }

  #follow(from: Duplex, to: Duplex, pass: (chunk: Buffer) => Buffer): void {
    from.on("data", (chunk: Buffer) => {
      const passed = pass(chunk);
      if (passed.length > 0 && to.writable && !to.write(passed)) from.pause();
    });
    to.on("drain", () => from.resume());
    from.on("end", () => {
      if (from === this.#backend || !this.#abandons()) to.end();
    });
    from.resume();
  }

  /** The client has left. @returns whether the backend is read on; then `done` is called when everything is charged. */
  readOn(done: () => void): boolean {
    if (!this.#abandons()) return false;
    this.#onOver.push(done);
    return true;
  }

  #leave(): void {
    if (!this.#abandons()) this.#backend?.destroy();
  }

  /** Whether the backend is read on without the client, or begins to be. */
  #abandons(): boolean {
    if (this.#state === "abandoned") return true;
    if (this.#state !== "open" || !this.#usage.hasOpenResponse) return false;
    const { abandonedResponses, client } = this.#options;
    this.#read = abandonedResponses.begin(client, Number.POSITIVE_INFINITY, () => this.#settle());
    if (this.#read === undefined) return false;
    this.#state = "abandoned";
    this.#backend?.resume();
    return true;
  }

  #toBackend(chunk: Buffer): Buffer {
    if (this.#state !== "open" && this.#state !== "closing") return nothing;
    const isBetweenFrames = this.#fromClient.isAtBoundary;
    let at = 0;
    while (at < chunk.length) {
      const start = at;
      at = this.#fromClient.read(chunk, at);
      if (this.#fromClient.isMalformed) {
        this.#closeClient(protocolError, "malformed frame", isBetweenFrames);
        return nothing;
      }
      if (this.#input.namesOtherModel) {
        this.#options.record.reason ??= "BadRequest";
        this.#closeClient(policyViolation, "another model than that of the session", isBetweenFrames);
        return nothing;
      }
      if (this.#fromClient.isClosing && this.#abandons()) {
        this.#client?.end(closeFrame(normalClosure, "", false));
        // A part of the header may have been passed on before; the backend waits for its rest.
        return this.#count("requestBytes", chunk.subarray(0, start));
      }
    }
    return this.#count("requestBytes", chunk);
  }

  #toClient(chunk: Buffer): Buffer {
    if (this.#state === "abandoned") {
      this.#readAbandoned(chunk);
      return nothing;
    }
    if (this.#state !== "open" && this.#state !== "closing") return nothing;
    this.#isPassing = true;
    const end = this.#readFrames(chunk);
    this.#isPassing = false;
    if (end === undefined) return this.#count("responseBytes", chunk);
    // The close frame follows what is returned.
    queueMicrotask(() => (this.#isBroken ? this.#closeBroken() : this.#closeExhausted()));
    return this.#count("responseBytes", chunk.subarray(0, end));
  }

  /** @returns the end of the frame behind which the session is to be closed; undefined if it is not. */
  #readFrames(chunk: Buffer): number | undefined {
    let boundary = 0;
    for (let at = 0; at < chunk.length; ) {
      at = this.#fromBackend.read(chunk, at);
      if (this.#fromBackend.isMalformed) return boundary;
      if (this.#isFlooded || (this.#isClosing && this.#isBetweenFrames)) return at;
      if (this.#fromBackend.isAtBoundary) boundary = at;
    }
    return undefined;
  }

  /** Whether the backend is not read on. */
  get #isBroken(): boolean {
    return this.#isFlooded || this.#fromBackend.isMalformed;
  }

  get #isClosing(): boolean {
    return this.#state === "closing";
  }

  /** A close frame of the backend ends the session by itself. */
  get #isBetweenFrames(): boolean {
    return this.#fromBackend.isAtBoundary && !this.#fromBackend.isClosing && !this.#fromBackend.isMalformed;
  }

  #readAbandoned(chunk: Buffer): void {
    for (let at = 0; at < chunk.length && !this.#isBroken; ) at = this.#fromBackend.read(chunk, at);
    if (this.#read?.countBytes(chunk.length) === false) return;
    if (!this.#usage.hasOpenResponse || this.#isBroken) this.#settle();
  }

  #count(part: "requestBytes" | "responseBytes", bytes: Buffer): Buffer {
    this.#options.record[part] += bytes.length;
    return bytes;
  }

  #charge(reported: TokenUsage): void {
    const { record, reservation } = this.#options;
    const ai = this.#ai;
    this.#isFlooded ||= !this.#responses.tryCount();
    const usage = withCost(reported, ai, record.clientModel);
    record.isUnpriced ||= ai?.prices !== undefined && usage.cost === undefined;
    record.usage = record.usage === undefined ? usage : sumOf(record.usage, usage);
    reservation.charge(usage);
    this.#recheck();
  }

  /** Asks for one decision at a time, so that many short responses cause no flood of calls. */
  #recheck(): void {
    if (this.#state !== "open") return;
    if (this.#isRechecking) {
      this.#mustRecheck = true;
      return;
    }
    this.#isRechecking = true;
    this.#mustRecheck = false;
    this.#options.reservation.recheck((hasLeft) => {
      this.#isRechecking = false;
      if (!hasLeft) this.#exhaust();
      else if (this.#mustRecheck) this.#recheck();
    });
  }

  #exhaust(): void {
    if (this.#state !== "open") return;
    this.#state = "closing";
    // Within a frame, or within `#toClient`, the end of the frame closes.
    if (!this.#isPassing && this.#isBetweenFrames) this.#closeExhausted();
  }

  #closeBroken(): void {
    if (this.#state !== "open" && this.#state !== "closing") return;
    this.#options.record.reason ??= "UpstreamReset";
    this.#close(protocolError, this.#isFlooded ? "too many responses" : "malformed frame of the backend");
  }

  #closeExhausted(): void {
    if (this.#state !== "closing") return;
    this.#options.record.reason ??= "RateLimited";
    this.#close(policyViolation, "rate limit exceeded");
  }

  /** Closes a session whose client has caused it. A response in progress is read to its end, as for one that leaves. */
  #closeClient(status: number, reason: string, isBetweenFrames: boolean): void {
    if (this.#abandons()) this.#client?.end(this.#count("responseBytes", closeFrame(status, reason, false)));
    else this.#close(status, reason, isBetweenFrames);
  }

  /**
   * Closes both sides, by a frame if possible.
   *
   * @param isBetweenFrames of what the backend has got: within a frame of the client, it would take another one for a
   *   part of it.
   */
  #close(status: number, reason: string, isBetweenFrames = this.#fromClient.isAtBoundary): void {
    this.#state = "closed";
    this.#client?.setTimeout(halfClosedIdleTimeoutMs);
    this.#client?.end(this.#count("responseBytes", closeFrame(status, reason, false)));
    this.#backend?.end(isBetweenFrames ? closeFrame(status, reason, true) : nothing);
  }

  /** Charges what is left, once, and ends the connection to the backend. */
  #settle(): void {
    if (this.#state === "over") return;
    this.#state = "over";
    this.#usage.end();
    this.#read?.end();
    this.#backend?.destroy();
    for (const done of this.#onOver.splice(0)) done();
  }
}

const summands = ["input", "output", "cachedInputTokens", "cacheCreationTokens", "reasoningTokens", "cost"] as const;

/** The model is that of the last response. */
function sumOf(one: TokenUsage, other: TokenUsage): TokenUsage {
  const known = summands.filter((name) => one[name] !== undefined || other[name] !== undefined);
  return {
    ...one,
    ...other,
    ...Object.fromEntries(known.map((name) => [name, (one[name] ?? 0) + (other[name] ?? 0)])),
    total: one.total + other.total,
    estimated: one.estimated || other.estimated,
  };
}
