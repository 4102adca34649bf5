/**
 * One endpoint of a rate limit service and the connection to it: HTTP/2 with many calls on it at once, opened ahead of
 * the first call, opened again with growing pauses when it is lost. node:http2 writes what one turn of the event loop
 * has sent in one piece.
 *
 * A server that is about to leave says so (GOAWAY): calls then go on a new connection while those under way finish on the
 * old one. A call that the server has provably not begun is handed back to be sent once more; any other is not, since it
 * may have been counted.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type SecureClientSessionOptions,
} from "node:http2";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Endpoint, UpstreamTls } from "../../../ir/snapshot.ts";
import { concludeCall, frameMessage } from "./grpc-message.ts";
import { type CallFailure, type CallOutcome, callFailure } from "./unary-client.ts";

/** One call, from whoever sends it. */
export interface PendingCall {
  readonly path: string;
  readonly message: Buffer;
  /** Of `Clock.monotonicMs`. */
  readonly deadlineMs: number;
  readonly done: (outcome: CallOutcome) => void;
  /** The server has not begun the call: it may be sent again. */
  readonly returned: (failure: CallFailure) => void;
}

export interface ConnectionOptions {
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
}

const connectTimeoutMs = 2_000;
/** Pauses between attempts: doubled from the first to the longest, each shortened by up to a quarter at random. */
const firstPauseMs = 50;
const longestPauseMs = 800;
/** So many timeouts in a row, and the connection is taken for dead: a lost peer sends no farewell. */
const timeoutsOfTheDead = 16;

export class Http2Connection {
  readonly #options: ConnectionOptions;
  readonly #authority: string;
  readonly #scheme: "http" | "https";
  readonly #sessionOptions: SecureClientSessionOptions & { readonly noDelay: true };
  #session: ClientHttp2Session | undefined;
  #isConnected = false;
  /** The session has answered a call: one that is merely accepted and closed again must not be opened in a tight loop. */
  #hasAnswered = false;
  #pauseMs = firstPauseMs;
  #timer: Timer | undefined;
  #isClosed = false;
  #timeouts = 0;
  /** Calls that wait for the connection to open. */
  readonly #waiting = new Set<Call>();
  /** Sessions that are still finishing calls, the current one among them. */
  readonly #sessions = new Set<ClientHttp2Session>();
  /** Calls that wait or are under way. */
  inFlight = 0;

  constructor(endpoint: Endpoint, tls: UpstreamTls | undefined, options: ConnectionOptions) {
    const host = endpoint.host.includes(":") ? `[${endpoint.host}]` : endpoint.host;
    this.#options = options;
    this.#authority = `${host}:${endpoint.port}`;
    this.#scheme = tls === undefined ? "http" : "https";
    this.#sessionOptions = { ...tlsOptions(tls), settings: { enablePush: false }, noDelay: true };
    this.#connect();
  }

  /** `open` takes calls at once, `opening` keeps them until it is open, `lost` refuses them. */
  get state(): "open" | "opening" | "lost" {
    if (this.#isClosed) return "lost";
    if (this.#isConnected) return "open";
    return this.#session === undefined ? "lost" : "opening";
  }

  /** Sends a call, or keeps it until the connection is open. */
  send(pending: PendingCall): void {
    if (this.#session === undefined) {
      pending.returned(callFailure("unavailable", `no connection to ${this.#authority}`));
      return;
    }
    const call = new Call(pending, this.#options.clock, (ending) => this.#ended(call, ending));
    this.inFlight++;
    if (this.#isConnected) call.start(this.#session, this.#headersOf(pending));
    else this.#waiting.add(call);
  }

  /** Takes no more calls, lets those under way finish, and closes. */
  retire(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    for (const session of this.#sessions) session.close();
  }

  /** Closes now; calls under way fail. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    for (const session of this.#sessions) session.destroy();
    this.#giveWaitingBack("the connection is closed");
  }

  #ended(call: Call, ending: Ending): void {
    this.inFlight--;
    this.#waiting.delete(call);
    if (ending === "heard") {
      this.#timeouts = 0;
      this.#hasAnswered = true;
      this.#pauseMs = firstPauseMs;
    } else if (ending === "timedOut" && ++this.#timeouts >= timeoutsOfTheDead) {
      this.#timeouts = 0;
      this.#session?.destroy();
    }
  }

  #connect(): void {
    const session = connect(`${this.#scheme}://${this.#authority}`, this.#sessionOptions);
    this.#session = session;
    this.#sessions.add(session);
    this.#timer = this.#options.clock.setTimer(connectTimeoutMs, () => session.destroy());
    session.once("connect", () => this.#connected(session));
    session.once("goaway", () => this.#leave(session));
    session.once("close", () => {
      this.#sessions.delete(session);
      this.#leave(session);
    });
    // "close" follows, and the calls on it hear of it themselves.
    session.on("error", () => undefined);
  }

  #connected(session: ClientHttp2Session): void {
    if (this.#session !== session) return;
    this.#timer?.cancel();
    this.#isConnected = true;
    for (const call of this.#waiting) call.start(session, this.#headersOf(call.pending));
    this.#waiting.clear();
  }

  /** A session that takes no more calls; the next one opens at once if this one had been of use. */
  #leave(session: ClientHttp2Session): void {
    if (this.#session !== session) return;
    const wasOfUse = this.#hasAnswered;
    this.#hasAnswered = false;
    this.#session = undefined;
    this.#isConnected = false;
    this.#timer?.cancel();
    if (this.#isClosed) return;
    this.#giveWaitingBack(`no connection to ${this.#authority}`);
    if (wasOfUse) {
      this.#connect();
      return;
    }
    const pauseMs = this.#pauseMs * (1 - this.#options.random() / 4);
    this.#pauseMs = Math.min(this.#pauseMs * 2, longestPauseMs);
    this.#timer = this.#options.clock.setTimer(pauseMs, () => this.#connect());
  }

  #giveWaitingBack(message: string): void {
    for (const call of this.#waiting) call.giveBack(callFailure("unavailable", message));
  }

  #headersOf({ path, deadlineMs }: PendingCall): readonly string[] {
    const leftMs = Math.max(1, Math.ceil(deadlineMs - this.#options.clock.monotonicMs()));
    return [
      ...[":method", "POST", ":scheme", this.#scheme],
      ...[":authority", this.#authority, ":path", path],
      ...["te", "trailers", "content-type", "application/grpc", "grpc-timeout", `${leftMs}m`],
    ];
  }
}

function tlsOptions(tls: UpstreamTls | undefined): SecureClientSessionOptions {
  if (tls === undefined) return {};
  const { hostname, authorities, clientCertificate } = tls;
  return {
    ALPNProtocols: ["h2"],
    ...(hostname !== undefined && { servername: hostname }),
    ...(authorities !== undefined && { ca: authorities }),
    ...(clientCertificate !== undefined && { cert: clientCertificate.chain, key: clientCertificate.privateKey.secret }),
  };
}

/** More than any answer; whatever goes on beyond is cut off. */
const maxAnswerBytes = 1024 * 1024;
const nothing = Buffer.alloc(0);

/** Whether the server had said anything of a call; `lost` came with the connection, or never left. */
type Ending = "heard" | "timedOut" | "lost";

/** One call on its way. Ends exactly once: by `done` or by `returned`. */
class Call {
  readonly pending: PendingCall;
  readonly #onEnd: (ending: Ending) => void;
  readonly #deadline: Timer;
  #stream: ClientHttp2Stream | undefined;
  #httpStatus = 0;
  #grpcStatus: string | undefined;
  #grpcMessage: string | undefined;
  #body: Buffer = nothing;
  #isOver = false;

  constructor(pending: PendingCall, clock: Clock, onEnd: (ending: Ending) => void) {
    this.pending = pending;
    this.#onEnd = onEnd;
    this.#deadline = clock.setTimer(pending.deadlineMs - clock.monotonicMs(), () => {
      this.#end(callFailure("timeout", "the service did not answer in time"), "timedOut");
      this.#stream?.close(constants.NGHTTP2_CANCEL);
    });
  }

  start(session: ClientHttp2Session, headers: readonly string[]): void {
    let stream: ClientHttp2Stream;
    try {
      stream = session.request(headers);
    } catch {
      // The session has just ceased to take calls.
      this.giveBack(callFailure("unavailable", "the connection is closing"));
      return;
    }
    this.#stream = stream;
    stream.on("response", (fields) => {
      this.#httpStatus = fields[":status"] ?? 0;
      this.#readStatus(fields);
    });
    stream.on("data", (chunk: Buffer) => this.#push(chunk));
    stream.on("trailers", (fields) => {
      this.#readStatus(fields);
      this.#conclude();
    });
    stream.on("close", () => this.#closed(stream.rstCode));
    // What follows from it is decided at "close".
    stream.on("error", () => undefined);
    stream.end(frameMessage(this.pending.message));
  }

  giveBack(failure: CallFailure): void {
    if (this.#over("lost")) this.pending.returned(failure);
  }

  #readStatus(fields: Readonly<Record<string, unknown>>): void {
    const { "grpc-status": status, "grpc-message": message } = fields;
    if (typeof status === "string") this.#grpcStatus = status;
    if (typeof message === "string") this.#grpcMessage = message;
  }

  #push(chunk: Buffer): void {
    this.#body = this.#body.length === 0 ? chunk : Buffer.concat([this.#body, chunk]);
    if (this.#body.length <= maxAnswerBytes) return;
    this.#end(callFailure("garbage", `an answer of more than ${maxAnswerBytes} bytes`), "heard");
    this.#stream?.close(constants.NGHTTP2_CANCEL);
  }

  #closed(rstCode: number | undefined): void {
    if (rstCode === constants.NGHTTP2_REFUSED_STREAM) {
      this.giveBack(callFailure("unavailable", "the service refused the call unread"));
    } else if (this.#httpStatus !== 0 && (rstCode === constants.NGHTTP2_NO_ERROR || this.#grpcStatus !== undefined)) {
      this.#conclude();
    } else {
      this.#end(callFailure("unavailable", "the connection or the call was broken off"), "lost");
    }
  }

  #conclude(): void {
    this.#end(concludeCall(this.#httpStatus, this.#grpcStatus, this.#grpcMessage, this.#body), "heard");
  }

  #end(outcome: CallOutcome, ending: Ending): void {
    if (this.#over(ending)) this.pending.done(outcome);
  }

  /** @returns whether it was not over before. */
  #over(ending: Ending): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#deadline.cancel();
    this.#onEnd(ending);
    return true;
  }
}
