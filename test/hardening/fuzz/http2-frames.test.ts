/**
 * Sequences of HTTP/2 frames against the server and the client of `http/`, compared with the rules of RFC 9113 in
 * `http2-rules.ts`: an error of the connection has a code that they permit, there is one where they require it, and a
 * message is complete for the receiver exactly if it is complete by the rules. Afterwards the peer gets the reply to a
 * PING, or the connection is closed; it holds few bytes, and no internal error has occurred.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, onTestFinished } from "vitest";
import type { ClientExchangeEvents } from "../../../http/src/ports.ts";
import { defaultHttp2ClientLimits } from "../../../http/src/http2/client/client-limits.ts";
import { Http2ClientConnection } from "../../../http/src/http2/client/http2-client.ts";
import { readsOf } from "../../../http/src/socket-reads.ts";
import type { RequestHead } from "../../../http/src/http2/server/request-head.ts";
import { Http2Server, type Http2ServerConnection } from "../../../http/src/http2/server/server.ts";
import type { Http2Exchange } from "../../../http/src/http2/server/server-exchange.ts";
import { defaultHttp2Limits } from "../../../http/src/http2/server/server-limits.ts";
import { clientPreface, type Frame, frame, framesOf, frameType } from "../../support/raw-http2.ts";
import { fuzz } from "../support/fuzz.ts";
import { bytesOf, frameSequences, framesIn, knownBlocks } from "../support/http2-frame-cases.ts";
import { permitsEnd, readFrames, type Reading } from "../support/http2-rules.ts";
import { perTest } from "../support/per-test.ts";

const settings = frame(frameType.settings, 0, 0);
const lastPing: Frame = { type: frameType.ping, flags: 0, stream: 0, payload: Buffer.from("the end.") };
/** Bytes of a connection that wait for the rest of a frame, of a header block or of a body. */
const maxHeldBytes = 128 * 1024;
const hangMs = 5_000;
/** A connection with many resets would end without an error. */
const clientLimits = { ...defaultHttp2ClientLimits, resets: { first: 1_000, burst: 1_000, perSecond: 1_000 } };

/** What a raw peer has received. */
class Received {
  readonly #chunks: Buffer[] = [];
  readonly #skipped: number;
  readonly socket: Socket;
  /** @param skipped bytes before the first frame. */
  constructor(socket: Socket, skipped: number) {
    this.socket = socket;
    this.#skipped = skipped;
    socket.on("data", (chunk: Buffer) => this.#chunks.push(chunk)).on("error", () => undefined);
  }

  get frames(): readonly Frame[] {
    return framesOf(Buffer.concat(this.#chunks).subarray(this.#skipped));
  }

  /** The code of the error with which the other side has ended the connection; undefined if it has not. */
  get goaway(): number | undefined {
    const codes = this.frames
      .filter(({ type }) => type === frameType.goaway)
      .map(({ payload }) => payload.readUInt32BE(4))
      .filter((each) => each !== 0);
    return codes[0];
  }

  /** Resolves with the reply to `lastPing`, or with the end of the connection; rejects if neither comes. */
  async end(): Promise<void> {
    const isOver = (): boolean =>
      this.socket.closed ||
      this.frames.some(
        ({ type, flags, payload }) => type === frameType.ping && flags === 1 && payload.equals(lastPing.payload),
      );
    const signal = AbortSignal.timeout(hangMs);
    while (!isOver()) {
      await Promise.race([once(this.socket, "data", { signal }), once(this.socket, "close", { signal })]).catch(
        (cause: unknown) => {
          if (!signal.aborted) return;
          throw new Error("neither the reply to a PING nor the end of the connection", { cause });
        },
      );
    }
  }
}

async function listen(onSocket: (socket: Socket) => void) {
  const server = createServer({ noDelay: true }, onSocket).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  // A listening TCP server has such an address.
  return (server.address() as AddressInfo).port;
}

/** Reads what is still in flight, and closes the connection from both sides. */
async function close(...sockets: readonly Socket[]): Promise<void> {
  for (const socket of sockets) {
    if (socket.closed) continue;
    const closed = once(socket, "close");
    socket.destroy();
    await closed;
  }
}

const serverWorld = perTest(async () => {
  const server = new Http2Server({ limits: defaultHttp2Limits, clock: new FakeClock() });
  const faults: unknown[] = [];
  const served: { connection: Http2ServerConnection | undefined; socket: Socket | undefined } = {
    ...{ connection: undefined, socket: undefined },
  };
  onTestFinished(() => server.close());
  const port = await listen((socket) => {
    served.socket = socket;
    served.connection = server.serve(socket, {
      readHead: (head: RequestHead) => head,
      onRequest(exchange: Http2Exchange) {
        const respond = (): void => exchange.respond(200, [], "");
        if (exchange.body === undefined) respond();
        else exchange.body.read({ onData: () => undefined, onEnd: respond, onAborted: () => undefined });
        return { onDrain: () => undefined, onBodyRejected: () => undefined, onClose: () => undefined };
      },
      onHolding: () => undefined,
      onTooLarge: () => undefined,
      onFault: (error: unknown) => faults.push(error),
    });
  });
  return { port, faults, served };
});

fuzz("http2-frames-to-server", {
  prepare: serverWorld,
  arbitrary: frameSequences("server"),
  async check(cases) {
    const { port, faults, served } = await serverWorld();
    const frames = [...framesIn(cases), lastPing];
    const reading = readFrames(frames, "server", knownBlocks("server"));
    const socket = connect(port, "127.0.0.1");
    const received = new Received(socket, 0);
    await once(socket, "connect");
    socket.write(Buffer.concat([Buffer.from(clientPreface), settings, bytesOf(frames)]));
    await received.end();
    expect(faults).toEqual([]);
    expect(served.connection?.heldBytes).toBeLessThan(maxHeldBytes);
    assertEnd(reading, received.goaway);
    const responses = received.frames.filter(({ type }) => type === frameType.headers).map(({ stream }) => stream);
    assertMessages(reading, new Set(responses), received.goaway);
    await close(socket);
  },
});

const clientWorld = perTest(async () => {
  const accepted: Socket[] = [];
  let wake: () => void = () => undefined;
  const port = await listen((socket) => {
    accepted.push(socket);
    wake();
  });
  /** The server's side of a connection that is being opened. */
  const next = async (): Promise<Socket> => {
    while (accepted.length === 0) await new Promise<void>((resolve) => (wake = resolve));
    return accepted.shift() ?? next();
  };
  return { port, next };
});

/** The streams of the requests. */
const requests = [1, 3, 5];

fuzz("http2-frames-to-client", {
  prepare: clientWorld,
  arbitrary: frameSequences("client"),
  async check(cases) {
    const { port, next } = await clientWorld();
    const frames = [...framesIn(cases), lastPing];
    const reading = readFrames(frames, "client", knownBlocks("client"), requests);
    const onread = readsOf((bytes) => client.receive(bytes), false);
    const socket = connect({ port, host: "127.0.0.1", noDelay: true, onread });
    const [peer] = await Promise.all([next(), once(socket, "connect")]);
    const received = new Received(peer, clientPreface.length);
    const faults: unknown[] = [];
    const opened = Promise.withResolvers<undefined>();
    const client: Http2ClientConnection = new Http2ClientConnection(socket, {
      limits: clientLimits,
      clock: new FakeClock(),
      onOpen: () => opened.resolve(undefined),
      onUnavailable: () => undefined,
      onClosed: () => undefined,
      onError: (error) => faults.push(error),
    });
    peer.write(settings);
    await opened.promise;
    /** The events of each request after which nothing may follow. */
    const ends: string[][] = requests.map(() => []);
    for (const list of ends) {
      const request = { method: "GET", path: "/", fields: ["host", "a"], body: undefined, upgrade: undefined };
      client.send(request, 0, { ...ignored, onEnd: () => list.push("end"), onFailure: () => list.push("failure") });
    }
    peer.write(bytesOf(frames));
    await received.end();
    const completed = new Set(requests.filter((_, at) => ends[at]?.[0] === "end"));
    const { goaway } = received;
    await close(socket, peer);
    expect(faults).toEqual([]);
    assertEnd(reading, goaway);
    assertMessages(reading, completed, goaway);
    expect(ends.map((list) => list.length)).toEqual([1, 1, 1]);
  },
});

const ignored: ClientExchangeEvents & { readonly onSent: () => void } = {
  onSent: () => undefined,
  onInterimHead: () => undefined,
  onHead: () => undefined,
  onData: () => undefined,
  onEnd: () => undefined,
  onFailure: () => undefined,
  onSwitched: () => undefined,
};

function assertEnd(reading: Reading, goaway: number | undefined): void {
  const codes = (sets: readonly ReadonlySet<number>[]): string =>
    sets.map((set) => `[${[...set].join(" ")}]`).join(" ");
  expect(
    permitsEnd(reading, goaway),
    `the connection ended with ${goaway ?? "no error"}; required are ${codes(reading.required)}, permitted ${codes(reading.permitted)}`,
  ).toBe(true);
}

/** @param completed the streams whose messages the receiver took for complete. */
function assertMessages({ messages }: Reading, completed: ReadonlySet<number>, goaway: number | undefined): void {
  for (const [stream, state] of messages) {
    const isComplete = completed.has(stream);
    // An error of the connection may hold back what was complete.
    const isExpected = state === "complete" && goaway === undefined;
    const isForbidden = state === "incomplete" || state === "malformed";
    if (isExpected || isForbidden) expect([stream, state, isComplete]).toEqual([stream, state, isExpected]);
  }
  for (const stream of completed) expect([...messages.keys()]).toContain(stream);
}
