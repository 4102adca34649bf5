/** node:http as the server of one bind: its limits, and the way from its requests to ours. */
import { createServer, type IncomingMessage, type Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { isName } from "../filters/hop-by-hop.ts";
import { boundChunks } from "./bound-chunks.ts";
import { followChunks } from "./chunked-body.ts";
import { allowedUpgrade, type UpgradeProtocols } from "../upstream/upgrade-protocol.ts";
import { type DrainPhase, schemeOf } from "./connection.ts";
import { rejectionTimeoutMs, type RequestReceiver } from "./downstream.ts";
import { type Http1Connection, Http1Downstream } from "./http1.ts";
import type { Http1Pipeline } from "./http1-pipeline.ts";
import { memoryOfWaiting } from "./request-memory.ts";
import { isChunkFlood } from "./small-chunks.ts";
import { type HeadFault, maxHeadBytes, maxHeaderFields, readHttp1Head, type RequestRules } from "./request-head.ts";

/** The receiver of the requests of a bind, and the rules for their heads. */
export interface Http1ServerOptions extends RequestReceiver {
  /** The connection of each socket that the server received. */
  readonly connectionOf: (socket: Socket) => Http1Connection | undefined;
  /** Unless the server is `serving`, responses ask the client to leave the connection. */
  readonly phase: () => DrainPhase;
  /** The protocols to which a request may switch. */
  readonly upgradeProtocols: UpgradeProtocols;
  /** How paths and header names of requests are normalized or rejected. */
  readonly rules: RequestRules;
  /** Times the close of connections whose request was rejected. */
  readonly clock: Clock;
  /** A request has been parsed. */
  readonly onParsed: () => void;
  /** A request could not be begun; its connection has been closed. */
  readonly onFault: (error: unknown) => void;
}

/** A server that is ready to listen; it reads what it is given by its `connection` listener. */
export function createHttp1Server(options: Http1ServerOptions): Server {
  // Asked to switch, Node's parser stops behind the request, and what came with the request and behind it is lost when
  // we decline. The next read may then begin in the middle of a request: so such a request is the last.
  let rejected: IncomingMessage | undefined;
  const accepts = (request: IncomingMessage): boolean => {
    const isAccepted = isSwitchable(options, request);
    // Node emits the request in the same turn, before it asks about another one.
    rejected = isAccepted ? undefined : request;
    return isAccepted;
  };
  const server = createServer({
    // A request without a body is not given the machinery for one.
    optimizeEmptyRequests: true,
    keepAliveTimeout: 75_000,
    headersTimeout: 30_000,
    // How late a slow head may be noticed.
    connectionsCheckingInterval: 5_000,
    // Uploads may be long; slow heads are cut by headersTimeout.
    requestTimeout: 0,
    maxHeaderSize: maxHeadBytes,
    // A request before the end of the previous response is served without switching, since the socket is in use.
    shouldUpgradeCallback: accepts,
    // Sent here, so that it is also in the log and the metrics.
    requireHostHeader: false,
  });
  // One more than is accepted, to distinguish an excess from the maximum.
  server.maxHeadersCount = maxHeaderFields + 1;
  const serve = (request: IncomingMessage, response: ServerResponse, kind: RequestKind): void => {
    try {
      begin(request, response, kind);
    } catch (error) {
      endWithFault(options, request, error);
    }
  };
  const begin = (request: IncomingMessage, response: ServerResponse, kind: RequestKind): void => {
    const connection = options.connectionOf(request.socket);
    // Closed in the same turn in which its last request was read.
    if (connection === undefined) return;
    options.onParsed();
    const { pipeline, heads } = connection;
    const announced = announcedLength(request);
    heads.take(request.socket.bytesRead, headLength(request), announced ?? 0);
    if (announced === undefined) {
      followChunks(request, heads, (chunk) => isChunkFlood(connection, chunk, options.clock));
    }
    const isLast = request === rejected || request.method === "CONNECT";
    if (pipeline.tryBegin()) {
      if (isLast) pipeline.cut();
      serveRequest(options, connection, request, response, kind);
    } else {
      boundChunks(request);
      wait(pipeline, request, isLast, () =>
        guard(options, request, () => serveRequest(options, connection, request, response, kind)),
      );
    }
    rejected = undefined;
  };
  server.on("request", (request, response) => serve(request, response, plain));
  server.on("checkContinue", (request, response) => serve(request, response, { ...plain, awaitsContinue: true }));
  // An unknown expectation may be ignored (RFC 9110 §10.1.1).
  server.on("checkExpectation", (request, response) => serve(request, response, plain));
  server.on("upgrade", (request, stream, head) => {
    const response = responseFor(request, stream, head);
    serve(request, response, { ...plain, upgrade: requestedUpgrade(request, options.upgradeProtocols) });
  });
  server.on("connect", (request, stream, head) => {
    if (isInUse(options, request)) stream.destroy();
    else serve(request, responseFor(request, stream, head), plain);
  });
  return server;
}

/**
 * Returns the error of a request's head that Node's parser, or its timeout for slow heads, found; undefined for any other
 * error of a connection. Node responds to such a request itself, and then destroys the socket with the error.
 */
export function headFaultOf(error: NodeJS.ErrnoException): HeadFault | undefined {
  const status = statusByCode[error.code ?? ""];
  return status === undefined ? undefined : { status, message: error.message };
}

/** By llhttp's and Node's error codes; those that only a body can have are left out, for its request is known. */
const statusByCode: Readonly<Record<string, HeadFault["status"]>> = {
  HPE_INVALID_METHOD: 400,
  HPE_INVALID_URL: 400,
  HPE_INVALID_VERSION: 400,
  HPE_INVALID_CONSTANT: 400,
  HPE_INVALID_HEADER_TOKEN: 400,
  HPE_INVALID_CONTENT_LENGTH: 400,
  HPE_UNEXPECTED_CONTENT_LENGTH: 400,
  HPE_INVALID_TRANSFER_ENCODING: 400,
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

interface RequestKind {
  readonly awaitsContinue: boolean;
  readonly upgrade: string | undefined;
}

const plain: RequestKind = { awaitsContinue: false, upgrade: undefined };

/** Queues a request that arrived before the previous response. Node has parsed it with all others of the same read. */
function wait(
  pipeline: Http1Pipeline,
  { socket, url = "", rawHeaders }: IncomingMessage,
  isLast: boolean,
  begin: () => void,
): void {
  pipeline.wait(
    () => {
      if (!pipeline.isFull) socket.resume();
      begin();
    },
    memoryOfWaiting(url, rawHeaders),
  );
  if (isLast) pipeline.cut();
  // Node resumes the socket at the end of each request that it parses, so not before all of the read is parsed.
  if (pipeline.isFull) process.nextTick(pauseWhileFull, pipeline, socket);
}

/** Of Node's parser, which its server keeps at the socket: what it calls with each head. */
interface HeadParser {
  onIncoming(request: ParsedRequest, keepsAlive: boolean): number;
}

interface ParsedRequest extends IncomingMessage {
  /** It asks for another protocol, or is a CONNECT: what is behind it in the same read is not parsed. */
  readonly upgrade?: boolean;
}

/** The fields by which Node's parser knows that a body, or another request, may follow. */
const parseOn = 0;

/**
 * Keeps nothing of the requests that come when the pipeline of a connection is over. Node would make a response for each,
 * and keep both until the connection closes; one read may have thousands.
 *
 * @param socket that the server has been given.
 */
export function dropWhenOver(socket: Socket, { pipeline, heads }: Http1Connection): void {
  // Node's name for it; the types do not have it.
  const { parser } = socket as Socket & { readonly parser?: HeadParser };
  if (parser === undefined) throw new Error("node:http has no parser at its socket");
  const onIncoming = parser.onIncoming.bind(parser);
  parser.onIncoming = (request, keepsAlive) => {
    if (!pipeline.isOver || request.upgrade === true) return onIncoming(request, keepsAlive);
    // Its body would not be read.
    request.push = () => true;
    heads.completeBytes = Math.max(heads.completeBytes, socket.bytesRead);
    process.nextTick(pauseWhileFull, pipeline, socket);
    return parseOn;
  };
}

function pauseWhileFull(pipeline: Http1Pipeline, socket: Socket): void {
  if (pipeline.isFull) socket.pause();
}

/** Whether a request may switch protocols: it requests an allowed one, and no other request is in progress. */
function isSwitchable(options: Http1ServerOptions, request: IncomingMessage): boolean {
  try {
    return requestedUpgrade(request, options.upgradeProtocols) !== undefined && !isInUse(options, request);
  } catch (error) {
    endWithFault(options, request, error);
    return false;
  }
}

function isInUse({ connectionOf }: Http1ServerOptions, { socket }: IncomingMessage): boolean {
  return connectionOf(socket)?.pipeline.isBusy ?? true;
}

function guard(options: Http1ServerOptions, request: IncomingMessage, action: () => void): void {
  try {
    action();
  } catch (error) {
    endWithFault(options, request, error);
  }
}

/** Nothing else would respond, or close the connection. */
function endWithFault({ onFault }: Http1ServerOptions, { socket }: IncomingMessage, error: unknown): void {
  socket.destroy();
  onFault(error);
}

/** Bytes of a head as it came, or nearly: blanks around values are not known. */
function headLength({ method = "", url = "", rawHeaders }: IncomingMessage): number {
  let length = method.length + url.length + " HTTP/1.1\r\n".length + "\r\n".length;
  for (const text of rawHeaders) length += text.length + 2;
  return length;
}

/** Bytes of the body, 0 if there is none; undefined if the length is unknown (chunked). */
function announcedLength({ rawHeaders }: IncomingMessage): number | undefined {
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === 14 && isName(name, "content-length")) return Number(rawHeaders[at + 1]) || 0;
    if (name?.length === 17 && isName(name, "transfer-encoding")) return undefined;
  }
  return 0;
}

function serveRequest(
  { phase, onRequest, onRejected, rules, clock }: Http1ServerOptions,
  connection: Http1Connection,
  request: IncomingMessage,
  response: ServerResponse,
  kind: RequestKind,
): void {
  const { method = "", url = "", httpVersion, rawHeaders } = request;
  const head = readHttp1Head(rules, schemeOf(connection), method, url, httpVersion, rawHeaders);
  if ("message" in head) {
    connection.pipeline.close();
    connection.heads.heldBytes += memoryOfWaiting(url, rawHeaders);
    reject(response, head);
    closeSoon(clock, request.socket);
    onRejected({ connection, httpVersion, method, target: url, rawHeaders, fault: head });
    return;
  }
  const { awaitsContinue, upgrade } = kind;
  const downstream = new Http1Downstream(request, response, { head, connection, awaitsContinue, upgrade, phase });
  downstream.listen(onRequest(downstream));
}

/** A client that does not read would keep a connection open that ends after this response. */
function closeSoon(clock: Clock, socket: Socket): void {
  const timer = clock.setTimer(rejectionTimeoutMs, () => socket.destroy());
  socket.once("close", () => timer.cancel());
}

function reject(response: ServerResponse, { status, message }: HeadFault): void {
  const body = `${message}\n`;
  const length = String(body.length);
  response.writeHead(status, ["content-type", "text/plain", "content-length", length, "connection", "close"]);
  response.end(body);
}

/**
 * The protocol that a request asks to switch to. Absent for one that is not allowed, and where a body comes before the
 * switch: such a request is served without switching, as any server may do (RFC 9110 §7.8).
 */
function requestedUpgrade({ headers, httpVersion }: IncomingMessage, allowed: UpgradeProtocols): string | undefined {
  const upgrade = httpVersion === "1.1" ? allowedUpgrade(headers.upgrade, allowed) : undefined;
  if (upgrade === undefined) return undefined;
  const hasBody = headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
  return hasBody ? undefined : upgrade;
}

/** node:http releases a connection that may be switched, so this connects the response and closes the connection. */
function responseFor(request: IncomingMessage, stream: Duplex, head: Buffer): ServerResponse {
  const { socket } = request;
  if (head.length > 0) stream.unshift(head);
  const response = new ServerResponse(request);
  response.assignSocket(socket);
  response.once("finish", () => socket.destroySoon());
  return response;
}
