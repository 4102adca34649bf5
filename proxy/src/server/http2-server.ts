/**
 * node:http2 as the server of one bind: its limits, and the way from its streams to our requests. What one client can
 * make the proxy hold or do without progress is bounded here. A connection that exceeds a bound gets GOAWAY and is closed.
 */
import { randomBytes } from "node:crypto";
import { constants, createServer, type Http2Server, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { allowedConnectProtocol, type UpgradeProtocols } from "../upstream/upgrade-protocol.ts";
import { boundChunks } from "./bound-chunks.ts";
import { type Connection, type DrainPhase, schemeOf } from "./connection.ts";
import { rejectionTimeoutMs, type RequestReceiver } from "./downstream.ts";
import { Http2Downstream } from "./http2.ts";
import { memoryOfRejectedStream } from "./request-memory.ts";
import { isChunkFlood } from "./small-chunks.ts";
import {
  defaultRequestRules,
  type HeadFault,
  maxHeadBytes,
  maxHeaderFields,
  readExtendedConnect,
  readHttp2Head,
  type RequestHead,
  type RequestRules,
  type Scheme,
} from "./request-head.ts";

/** Streams of a connection that are open at once. */
const maxStreams = 100;
/** Pseudo-header fields that a request may have besides its fields (RFC 9113 §8.3.1, RFC 8441 §4). */
const maxPseudoFields = 6;

/** A connection on which nothing has passed for so long is closed; streams that are open on it may finish first. */
const defaultIdleTimeoutMs = 300_000;
/** How long a client may take to read the last of what it was sent on a connection that is over; up to twice that long. */
const lastReadTimeoutMs = 60_000;

const serverOptions = {
  settings: {
    maxConcurrentStreams: maxStreams,
    initialWindowSize: 256 * 1024,
    maxHeaderListSize: maxHeadBytes,
    enableConnectProtocol: true,
  },
  // One more than is accepted, so that the request is rejected and not the connection.
  maxHeaderListPairs: maxHeaderFields + 1 + maxPseudoFields,
  /** MiB of a connection. Beyond it, new streams are rejected. */
  maxSessionMemory: 32,
  maxSessionInvalidFrames: 100,
  /** `requestFields` decides about a field that comes twice; Node would throw. */
  strictSingleValueFields: false,
  /**
   * Streams that a client may reset at once, and then per second. A browser that leaves a page resets all of its
   * streams; a client that opens streams only to reset them wants nothing but our work (CVE-2023-44487).
   */
  streamResetBurst: 10 * maxStreams,
  streamResetRate: maxStreams,
};

/** The receiver of the requests of a bind, and the rules for their heads. */
export interface Http2SessionsOptions extends RequestReceiver {
  /** How paths and header names of requests are normalized or rejected; absent: `defaultRequestRules`. */
  readonly rules?: RequestRules;
  /** Times rejected streams and floods of small frames. */
  readonly clock: Clock;
  /** The head of a request has been parsed. */
  readonly onParsed: () => void;
  /** A request could not be begun; its stream has been reset. Absent: the thread ends. */
  readonly onFault?: (error: unknown) => void;
}

interface OpenSession {
  readonly session: ServerHttp2Session;
  /** That `session` reads from. */
  readonly socket: Socket;
  /** Our SETTINGS have been sent, which must come first (RFC 9113 §3.4). */
  isGreeted: boolean;
}

/**
 * The HTTP/2 connections of one bind. A connection without data for 5 minutes gets GOAWAY; each may have 100 open
 * streams.
 */
export class Http2Sessions {
  readonly #server: Http2Server = createServer(serverOptions);
  readonly #sessions = new Set<OpenSession>();
  readonly #receiver: RequestReceiver;
  readonly #upgradeProtocols: UpgradeProtocols;
  readonly #rules: RequestRules;
  readonly #clock: Clock;
  readonly #onParsed: () => void;
  readonly #onFault: Http2SessionsOptions["onFault"];
  readonly #idleTimeoutMs: number;
  /** The socket that is being passed to the server. */
  #handedOver: { readonly socket: Socket; readonly connection: Connection } | undefined;
  #phase: DrainPhase = "serving";

  constructor(options: Http2SessionsOptions, upgradeProtocols: UpgradeProtocols, idleTimeoutMs = defaultIdleTimeoutMs) {
    this.#receiver = options;
    this.#clock = options.clock;
    this.#onParsed = options.onParsed;
    this.#onFault = options.onFault;
    this.#rules = options.rules ?? defaultRequestRules;
    this.#upgradeProtocols = upgradeProtocols;
    this.#idleTimeoutMs = idleTimeoutMs;
    // Called within "connection", so the session is that connection's.
    this.#server.on("session", (session) => {
      if (this.#handedOver === undefined) throw new Error("a session without a connection");
      this.#open(session, this.#handedOver.socket, this.#handedOver.connection);
    });
  }

  /** Takes a connection over, whose client speaks HTTP/2. */
  serve(socket: Socket, connection: Connection): void {
    this.#handedOver = { socket, connection };
    this.#server.emit("connection", socket);
    this.#handedOver = undefined;
  }

  /** Asks clients to leave (GOAWAY without a last stream, RFC 9113 §6.8): new streams are still served. */
  leave(): void {
    this.#phase = "leaving";
    for (const open of this.#sessions) announceEnd(open);
  }

  /** Closes every connection (GOAWAY with the last stream): streams finish, new ones are rejected. */
  drain(): void {
    this.#phase = "closing";
    for (const { session } of this.#sessions) session.close();
  }

  #open(session: ServerHttp2Session, socket: Socket, connection: Connection): void {
    const open = { session, socket, isGreeted: false };
    this.#sessions.add(open);
    connection.heads.ping = (onAck) => {
      if (session.destroyed) return;
      // An error says that the session has ended.
      session.ping((error) => {
        if (error === null) onAck();
      });
    };
    session.on("error", ignore);
    session.once("close", () => this.#sessions.delete(open));
    session.on("stream", (stream: ServerHttp2Stream, _headers, flags, rawHeaders) =>
      this.#serveGuarded(connection, stream, flags, rawHeaders),
    );
    // GOAWAY: the client makes another connection when it needs one.
    session.setTimeout(this.#idleTimeoutMs, () => session.close());
    // Node sends ours at the end of the read that brings the client's.
    session.once("remoteSettings", () =>
      setImmediate(() => {
        open.isGreeted = true;
        if (this.#phase === "leaving") announceEnd(open);
      }),
    );
    if (this.#phase === "closing") session.close();
    destroyWithSession(socket, session, Math.min(this.#idleTimeoutMs, lastReadTimeoutMs));
  }

  #serveGuarded(connection: Connection, stream: ServerHttp2Stream, flags: number, rawHeaders: readonly string[]): void {
    try {
      this.#serveStream(connection, stream, flags, rawHeaders);
    } catch (error) {
      if (this.#onFault === undefined) throw error;
      stream.destroy();
      this.#onFault(error);
    }
  }

  #serveStream(connection: Connection, stream: ServerHttp2Stream, flags: number, rawHeaders: readonly string[]): void {
    stream.on("error", ignore);
    this.#onParsed();
    connection.heads.received++;
    // It was reset in the read in which it arrived. Node throws if anything is sent on it.
    if (stream.destroyed || stream.closed) return;
    if (connection.heads.isTooGreedy(this.#clock.monotonicMs())) {
      // GOAWAY. All that the connection holds is free again, and what it still sends is not parsed.
      stream.session?.destroy(tooGreedy, constants.NGHTTP2_ENHANCE_YOUR_CALM);
      return;
    }
    const request = readRequest(this.#rules, schemeOf(connection), rawHeaders, this.#upgradeProtocols);
    if ("fault" in request) {
      const { method, path: target, fault } = request;
      this.#holdRejected(connection, stream, rawHeaders);
      stream.respond([":status", String(fault.status), "content-type", "text/plain"]);
      stream.end(`${fault.message}\n`);
      // Whatever the client still sends is not wanted (RFC 9113 §8.1); unread, it would hold the stream open.
      if ((flags & endStreamFlag) === 0) setImmediate(() => stream.close());
      this.#receiver.onRejected({ connection, httpVersion: "2", method, target, rawHeaders, fault });
      return;
    }
    const isEnded = (flags & endStreamFlag) !== 0;
    if (!isEnded) boundChunks(stream, (chunk) => this.#closeOnFlood(connection, stream, chunk));
    const downstream = new Http2Downstream(stream, { ...request, connection, isEnded });
    downstream.listen(this.#receiver.onRequest(downstream));
  }

  /** Returns whether the connection has sent too many small DATA frames. It is then closed by GOAWAY. */
  #closeOnFlood(connection: Connection, stream: ServerHttp2Stream, chunk: Buffer): boolean {
    if (!isChunkFlood(connection, chunk, this.#clock)) return false;
    stream.session?.destroy(tooManySmallFrames, constants.NGHTTP2_ENHANCE_YOUR_CALM);
    return true;
  }

  /** Counts the memory of a rejected stream until it is closed, and closes it after a while. */
  #holdRejected({ heads }: Connection, stream: ServerHttp2Stream, rawHeaders: readonly string[]): void {
    const bytes = memoryOfRejectedStream(rawHeaders);
    heads.heldBytes += bytes;
    const timer = this.#clock.setTimer(rejectionTimeoutMs, () => {
      stream.close(constants.NGHTTP2_CANCEL);
      // A client that does not read would not take the reset either.
      stream.destroy();
    });
    stream.once("close", () => {
      timer.cancel();
      heads.heldBytes -= bytes;
    });
  }
}

/**
 * GOAWAY with the greatest stream identifier and NO_ERROR (RFC 9113 §6.8): the connection will end, and every stream that
 * is on its way is still served. Bytes of our own, because nghttp2 ignores new streams after `session.goaway()`; they
 * stand between whole frames, because Node hands nghttp2's frames to the socket whole.
 */
const endAnnouncement = Buffer.from([0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

function announceEnd({ session, socket, isGreeted }: OpenSession): void {
  if (isGreeted && !session.closed && !session.destroyed) socket.write(endAnnouncement);
}

/** Without an error, Node would say NO_ERROR in the GOAWAY. */
const tooGreedy = new Error("the connection sends requests while its memory is used up");
const tooManySmallFrames = new Error("the connection sends too many small DATA frames");

/** Closes a socket whose session has been over for `ms`: Node would wait for ever for a client that does not read. */
function destroyWithSession(socket: Socket, session: ServerHttp2Session, ms: number, wasOver = false): void {
  socket.setTimeout(ms, () => {
    if (wasOver) socket.destroy();
    else destroyWithSession(socket, session, ms, session.destroyed);
  });
}

/** RFC 9113 §6.2 */
const endStreamFlag = 0x1;

interface Http2Request {
  readonly head: RequestHead;
  readonly upgrade: string | undefined;
}

interface FaultyRequest {
  readonly method: string;
  readonly path: string;
  readonly fault: HeadFault;
}

function readRequest(
  rules: RequestRules,
  scheme: Scheme,
  rawHeaders: readonly string[],
  upgradeProtocols: UpgradeProtocols,
): Http2Request | FaultyRequest {
  let method = "";
  let path = "";
  let authority: string | undefined;
  let protocol: string | undefined;
  // Pseudo-header fields come first (RFC 9113 §8.3).
  for (let i = 0; i < rawHeaders.length && rawHeaders[i]?.startsWith(":") === true; i += 2) {
    const value = rawHeaders[i + 1] ?? "";
    if (rawHeaders[i] === ":method") method = value;
    else if (rawHeaders[i] === ":path") path = value;
    else if (rawHeaders[i] === ":authority") authority = value;
    else if (rawHeaders[i] === ":protocol") protocol = value;
  }
  const upgrade = protocol === undefined ? undefined : allowedConnectProtocol(protocol, upgradeProtocols);
  const head =
    protocol === undefined
      ? readHttp2Head(rules, scheme, method, path, authority, rawHeaders)
      : readExtendedConnect(rules, scheme, { method, path, authority, protocol, upgrade }, rawHeaders, newWebSocketKey);
  return "message" in head ? { method, path, fault: head } : { head, upgrade };
}

function newWebSocketKey(): string {
  return randomBytes(16).toString("base64");
}

function ignore(): void {
  // Nothing to do: "close" reports it.
}
