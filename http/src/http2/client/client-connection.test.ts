/**
 * A connection of the client of HTTP/2, through its sockets. Each case names the section of RFC 9113 that it is about,
 * unless it names another.
 */
import { describe, expect, test } from "vitest";
import { TestBody } from "../../testing/exchanges.ts";
import { ErrorCode, Flag, FrameType, Setting } from "../frame.ts";
import {
  connectClient,
  data,
  goAway,
  head,
  lastData,
  lastHead,
  ping,
  rst,
  settings,
  windowUpdate,
} from "../testing/connect-client.ts";
import { dataBytes, exchange, goAwayCode, ok, resetCodes, upload } from "../testing/exchange-with-peer.ts";

describe("a connection", () => {
  test("begins with the preface and SETTINGS that disable push (§3.4, §6.5.2)", async () => {
    const { peer } = await connectClient();
    const { payload } = await peer.until(FrameType.Settings);
    expect(payload.includes(Buffer.from([0, Setting.EnablePush, 0, 0, 0, 0]))).toBe(true);
    await peer.until(FrameType.WindowUpdate);
  });

  test("sends no request before the SETTINGS of the server (§3.4)", async () => {
    const { peer, state } = await connectClient(Buffer.alloc(0));
    await peer.until(FrameType.Settings);
    expect(state.isOpen).toBe(false);
    peer.send(settings());
    await expect.poll(() => state.isOpen).toBe(true);
  });

  test("fails if the server speaks HTTP/1 (§3.4)", async () => {
    const { state } = await connectClient(Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n"));
    await expect.poll(() => state.isClosed).toBe(true);
    expect([state.isOpen, state.reason]).toEqual([false, expect.stringContaining("violates HTTP/2")]);
  });

  test("acknowledges SETTINGS and PING (§6.5.3, §6.7)", async () => {
    const { peer } = await connectClient();
    peer.send(ping());
    expect((await peer.until(FrameType.Ping)).flags).toBe(Flag.Ack);
    expect(peer.got(FrameType.Settings).map(({ flags }) => flags)).toEqual([0, Flag.Ack]);
  });

  test("carries the requests of one turn in one write", async () => {
    const { peer, send } = await connectClient();
    for (let sent = 0; sent < 5; sent++) send();
    await peer.until(FrameType.Headers, 5);
    expect(peer.chunks.filter((chunk) => chunk.some(({ type }) => type === FrameType.Headers))).toHaveLength(1);
  });

  test("sends GOAWAY when it is closed, after the last response (§6.8)", async () => {
    const { peer, client, send, state } = await connectClient();
    const { received, over } = send();
    await peer.until(FrameType.Headers);
    client.close();
    expect([client.isAvailable, state.reason]).toEqual([false, "the connection is no longer used"]);
    peer.send(head(1, ok), lastData(1, "rest"));
    await over;
    expect(received.body).toBe("rest");
    expect(await goAwayCode(peer)).toBe(ErrorCode.NoError);
    await expect.poll(() => state.isClosed).toBe(true);
  });

  test("that is destroyed fails its requests, and takes no others", async () => {
    const { peer, client, send } = await connectClient();
    const { received } = send();
    await peer.until(FrameType.Headers);
    client.destroy();
    expect(received.failure).toEqual({ kind: "reset", message: "the connection was closed" });
    const { received: late, over } = send();
    expect(late.failure).toBeUndefined();
    await over;
    expect(late.failure?.kind).toBe("unprocessed");
  });

  test("that breaks fails its requests, which the server may have processed", async () => {
    const { peer, send } = await connectClient();
    const { received, over } = send();
    await peer.until(FrameType.Headers);
    peer.socket.resetAndDestroy();
    await over;
    expect(received.failure?.kind).toBe("reset");
  });

  test("whose server ends within a response fails it", async () => {
    const { peer, send } = await connectClient();
    const { received, over } = send();
    await peer.until(FrameType.Headers);
    peer.send(head(1, ok), data(1, "part"));
    peer.socket.end();
    await over;
    expect(received).toMatchObject({ body: "part", failure: { kind: "reset" } });
  });

  test("whose identifiers are used up takes no more requests (§5.1.1)", async () => {
    const { peer, send, client, state } = await connectClient(settings(), { maxStreamId: 3 });
    const first = send();
    const last = send();
    expect(client.isAvailable).toBe(false);
    await peer.until(FrameType.Headers, 2);
    peer.send(lastHead(1, ok), lastHead(3, ok));
    await Promise.all([first.over, last.over]);
    expect([first, last].map(({ received }) => received.status)).toEqual([200, 200]);
    await expect.poll(() => state.isClosed).toBe(true);
  });
});

describe("a stream that the server resets", () => {
  test("with REFUSED_STREAM is unprocessed (§8.7)", async () => {
    const { received } = await exchange([rst(1, ErrorCode.RefusedStream)]);
    expect(received.failure?.kind).toBe("unprocessed");
  });

  test("with REFUSED_STREAM after its head may have been processed", async () => {
    const { received } = await exchange([head(1, ok), rst(1, ErrorCode.RefusedStream)]);
    expect(received.failure?.kind).toBe("reset");
  });

  test.each([ErrorCode.NoError, ErrorCode.InternalError, ErrorCode.Cancel, 0xd, 0xffff])(
    "with the code %i has no complete response (§7)",
    async (code) => {
      const { received, client } = await exchange([head(1, ok), data(1, "part"), rst(1, code)]);
      expect(received).toMatchObject({ body: "part", trailers: undefined, failure: { kind: "reset" } });
      expect(client.isAvailable).toBe(true);
    },
  );

  test("after the end of its response changes nothing (§8.1)", async () => {
    const { received, client } = await exchange([lastHead(1, ok), rst(1, ErrorCode.NoError)]);
    expect([received.failure, client.isAvailable]).toEqual([undefined, true]);
  });
});

describe("GOAWAY", () => {
  test("returns the requests after its last stream, finishes the others, and ends the connection (§6.8)", async () => {
    const { peer, send, client, state } = await connectClient();
    const accepted = send();
    const rejected = send();
    await peer.until(FrameType.Headers, 2);
    peer.send(goAway(1));
    await rejected.over;
    expect(rejected.received.failure?.kind).toBe("unprocessed");
    expect([client.isAvailable, state.reason]).toEqual([false, "the server is closing the connection"]);
    peer.send(head(1, ok), lastData(1, "done"));
    await accepted.over;
    expect(accepted.received.body).toBe("done");
    await expect.poll(() => state.isClosed).toBe(true);
  });

  test("may come twice, first to stop new requests (§6.8)", async () => {
    const { peer, send } = await connectClient();
    const [first, second] = [send(), send()];
    await peer.until(FrameType.Headers, 2);
    peer.send(goAway(2 ** 31 - 1), ping());
    await peer.until(FrameType.Ping);
    expect(second.received.failure).toBeUndefined();
    peer.send(goAway(1), lastHead(1, ok));
    await Promise.all([first.over, second.over]);
    expect([first.received.status, second.received.failure?.kind]).toEqual([200, "unprocessed"]);
  });

  test("returns the requests that wait for a stream (§6.8)", async () => {
    const { peer, send } = await connectClient(settings([Setting.MaxConcurrentStreams, 1]));
    send();
    const waiting = send();
    await peer.until(FrameType.Headers);
    peer.send(goAway(1));
    await waiting.over;
    expect(waiting.received.failure?.kind).toBe("unprocessed");
  });

  test("with an error says so (§6.8)", async () => {
    const { peer, state } = await connectClient();
    peer.send(goAway(0, ErrorCode.EnhanceYourCalm));
    await expect.poll(() => state.reason).toBe("the server closed the connection with error code 11");
  });
});

describe("a timeout", () => {
  test("ends a request without progress, and the server must acknowledge a PING (§6.7)", async () => {
    const { peer, send, pass, client, state } = await connectClient(settings(), { pingTimeoutMs: 3_000 });
    const { received } = send({}, 2_000);
    await peer.until(FrameType.Headers);
    await pass(2);
    expect(received.failure).toBeUndefined();
    await pass(1);
    expect(received.failure).toEqual({ kind: "timeout", message: "the server has sent nothing for 2000 ms" });
    expect(client.isAvailable).toBe(false);
    await peer.until(FrameType.Ping);
    expect(resetCodes(peer)).toEqual([ErrorCode.Cancel]);
    await pass(3);
    expect(state.reason).toBe("the server does not acknowledge a ping");
  });

  test("leaves the connection to others once the PING is acknowledged", async () => {
    const { peer, send, pass, client } = await connectClient();
    send({}, 1_000);
    await peer.until(FrameType.Headers);
    await pass(2);
    await peer.until(FrameType.Ping);
    peer.send(ping(Flag.Ack));
    await expect.poll(() => client.isAvailable).toBe(true);
  });

  test("does not run while bytes arrive, nor while the receiver or the source is the slow one", async () => {
    const { peer, send, pass } = await connectClient();
    const slow = send({}, 1_000);
    const body = new TestBody();
    const silent = send(upload(body), 1_000);
    const paused = send({}, 1_000);
    await peer.until(FrameType.Headers, 3);
    paused.exchange.pause();
    peer.send(head(1, ok));
    for (let part = 1; part <= 4; part++) {
      peer.send(data(1, "x"));
      await expect.poll(() => slow.received.body.length).toBe(part);
      await pass(1);
    }
    expect([slow, silent, paused].map(({ received }) => received.failure)).toEqual([undefined, undefined, undefined]);
    body.receiver?.onEnd([]);
    paused.exchange.resume();
    await pass(2);
    expect([slow, silent, paused].map(({ received }) => received.failure?.kind)).toEqual(Array(3).fill("timeout"));
  });

  test("runs while the server does not read an upload, and not while it reads slowly", async () => {
    const { peer, send, pass } = await connectClient(settings([Setting.InitialWindowSize, 1]));
    const { received } = send(upload(Buffer.alloc(10)), 1_000);
    await peer.until(FrameType.Data);
    for (let byte = 2; byte < 5; byte++) {
      peer.send(windowUpdate(1, 1));
      await peer.until(FrameType.Data, byte);
      await pass(1);
    }
    expect(received.failure).toBeUndefined();
    await pass(2);
    expect(received.failure?.kind).toBe("timeout");
  });

  test("pings a server twice without a response, and then takes no more requests: some end it at the third", async () => {
    const { client, peer, send, pass } = await connectClient(settings());
    const waiting = send();
    for (let seconds = 1; seconds <= 5; seconds++) send({}, seconds * 2_000);
    await peer.until(FrameType.Headers, 6);
    for (let at = 1; at <= 5; at++) {
      await pass(2);
      peer.send(ping(Flag.Ack));
      // The frame arrives within the turns of a second.
      await pass(1);
    }
    await expect.poll(() => resetCodes(peer).length).toBe(3);
    expect([peer.got(FrameType.Ping).length, client.isAvailable]).toEqual([2, false]);
    peer.send(lastHead(1, ok));
    await expect.poll(() => waiting.received.status).toBe(200);
  });

  test("of a silent server is found by one PING, until it responds again", async () => {
    const { client, peer, send, pass, state } = await connectClient(settings(), { silenceMs: 5_000 });
    await pass(10);
    expect(peer.got(FrameType.Ping)).toEqual([]);
    const { received } = send();
    await peer.until(FrameType.Headers);
    await pass(5);
    await peer.until(FrameType.Ping);
    peer.send(ping(Flag.Ack));
    await expect.poll(() => client.isAvailable).toBe(true);
    await pass(20);
    expect(peer.got(FrameType.Ping)).toHaveLength(1);
    peer.send(head(1, ok));
    await expect.poll(() => received.status).toBe(200);
    await pass(5);
    await peer.until(FrameType.Ping, 2);
    await pass(20);
    expect(state.reason).toBe("the server does not acknowledge a ping");
  });
});

describe("an upload that the server does not read", () => {
  const windowBytes = 65_535;

  test("ends after four seconds in which others wait for the window of the connection (§5.2)", async () => {
    const { peer, send, pass } = await connectClient(settings());
    const [first, second] = [new TestBody(), new TestBody()];
    const unread = send(upload(first), 60_000);
    const read = send(upload(second), 60_000);
    await peer.until(FrameType.Headers, 2);
    first.receiver?.onData(Buffer.alloc(windowBytes), false);
    second.receiver?.onData(Buffer.alloc(1_000), false);
    await expect.poll(() => dataBytes(peer, 1)).toBe(windowBytes);
    await pass(4);
    expect(unread.received.failure).toBeUndefined();
    await pass(1);
    const message = "the server does not read the request, and others wait";
    expect(unread.received.failure).toEqual({ kind: "timeout", message, isRejected: true });
    await peer.until(FrameType.RstStream);
    // The server has dropped what it had not read.
    peer.send(windowUpdate(0, windowBytes));
    await expect.poll(() => dataBytes(peer, 3)).toBe(1_000);
    expect(read.received.failure).toBeUndefined();
  });
});

describe("uploads of two clients", () => {
  const windowBytes = 65_535;

  /** An upload of each client, that of the first after `bytes` of the second. */
  async function begin(bytes: number) {
    const connected = await connectClient(settings());
    const { peer, send } = connected;
    const bodies = [new TestBody(), new TestBody()] as const;
    const exchanges = bodies.map((body, at) => send({ ...upload(body), client: `10.0.0.${at}` }, 60_000));
    await peer.until(FrameType.Headers, 2);
    bodies[1].receiver?.onData(Buffer.alloc(bytes), false);
    const held = (): number => dataBytes(peer, 3);
    await expect.poll(held).toBe(Math.min(bytes, windowBytes - Math.floor(windowBytes / 4) - 1));
    return { ...connected, first: bodies[0], exchanges, held };
  }

  test("leave a quarter of the window to each other", async () => {
    const { peer, first, held } = await begin(2 * windowBytes);
    const before = held();
    first.receiver?.onData(Buffer.alloc(3 * windowBytes), false);
    for (let read = 0; read < 3 * windowBytes; ) {
      await expect.poll(() => dataBytes(peer, 1)).toBeGreaterThan(read);
      const bytes = dataBytes(peer, 1) - read;
      read += bytes;
      peer.send(windowUpdate(1, bytes), windowUpdate(0, bytes));
    }
    expect(held()).toBe(before);
  });

  test("go on with the whole window when those of the other client have ended", async () => {
    const { exchanges, held } = await begin(2 * windowBytes);
    exchanges[0]?.exchange.abort();
    await expect.poll(held).toBe(windowBytes);
  });

  test("do not end because the other client waits for its share", async () => {
    const { peer, first, exchanges, pass } = await begin(2 * windowBytes);
    first.receiver?.onData(Buffer.alloc(2 * windowBytes), false);
    await expect.poll(() => dataBytes(peer, 1)).toBeGreaterThan(0);
    await pass(9);
    expect(exchanges.map(({ received }) => received.failure)).toEqual([undefined, undefined]);
  });
});

test("uploads of several clients that the server does not read end if they leave too little to another one", async () => {
  const { peer, send, pass } = await connectClient(settings());
  const bodies = Array.from({ length: 6 }, () => new TestBody());
  const exchanges = bodies.map((body, at) => send({ ...upload(body), client: `10.0.0.${at}` }, 60_000));
  await peer.until(FrameType.Headers, bodies.length);
  const others = bodies.slice(1);
  for (const [at, body] of others.entries()) {
    body.receiver?.onData(Buffer.alloc(65_535), false);
    await expect.poll(() => dataBytes(peer, 2 * at + 3)).toBeGreaterThan(0);
  }
  bodies[0]?.receiver?.onData(Buffer.alloc(1_000), false);
  await pass(4);
  expect(exchanges.map(({ received }) => received.failure)).toEqual(bodies.map(() => undefined));
  await pass(1);
  expect(exchanges.map(({ received }) => received.failure?.kind)).toEqual(
    bodies.map((_, at) => (at === 1 ? "timeout" : undefined)),
  );
  await peer.until(FrameType.RstStream);
  peer.send(windowUpdate(0, dataBytes(peer, 3)));
  await expect.poll(() => dataBytes(peer, 1)).toBe(1_000);
});

test("many small parts of a response are no flood", async () => {
  const { peer, send } = await connectClient();
  const { received, over } = send();
  await peer.until(FrameType.Headers);
  peer.send(head(1, ok), ...Array<Buffer>(30_000).fill(data(1, "x")), lastData(1, "."));
  await over;
  expect(received.body).toHaveLength(30_001);
});

test("small parts of a cancelled response are no flood within its window, and one beyond it", async () => {
  const { peer, send, client, state } = await connectClient(settings(), { streamWindowBytes: 15_000 });
  const cancelled = send();
  const { received } = send();
  await peer.until(FrameType.Headers, 2);
  cancelled.exchange.abort();
  await peer.until(FrameType.RstStream);
  peer.send(...Array<Buffer>(15_000).fill(data(1, "x")), head(3, ok));
  await expect.poll(() => received.status).toBe(200);
  expect(client.isAvailable).toBe(true);
  peer.send(...Array<Buffer>(11_000).fill(data(1, "x")));
  expect(await goAwayCode(peer)).toBe(ErrorCode.EnhanceYourCalm);
  expect(state.reason).toContain("frames that advance no stream");
});

test("an exchange after its end has no effect", async () => {
  const { exchange: sent, peer, client } = await exchange([lastHead(1, ok)]);
  sent.pause();
  sent.resume();
  sent.abort();
  peer.send(ping());
  await peer.until(FrameType.Ping);
  expect([resetCodes(peer), client.isAvailable]).toEqual([[], true]);
});
