/** A client of HTTP/2 that is connected to a server whose frames a test sends. */
import { once } from "node:events";
import { connect } from "node:net";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, onTestFinished } from "vitest";
import type { ClientExchangeEvents, ClientRequest } from "../../ports.ts";
import { readsOf } from "../../socket-reads.ts";
import { sweepMs } from "../../sweep.ts";
import { get, sendRecorded } from "../../testing/exchanges.ts";
import { type ClientLimits, defaultHttp2ClientLimits } from "../client/client-limits.ts";
import { Http2ClientConnection } from "../client/http2-client.ts";
import { Flag, FrameType } from "../frame.ts";
import { HpackDecoder } from "../hpack/hpack-decoder.ts";
import { encodeHeaderBlock } from "../hpack/hpack-encoder.ts";
import { rawFrame, uint32 } from "./raw-frame.ts";
import { type RawPeer, RawServer } from "./raw-server.ts";

/** HEADERS with a whole block. */
export const head = (id: number, fields: readonly string[], flags = 0): Buffer =>
  rawFrame(FrameType.Headers, Flag.EndHeaders | flags, id, encodeHeaderBlock(fields));
/** HEADERS that end the stream. */
export const lastHead = (id: number, fields: readonly string[]): Buffer => head(id, fields, Flag.EndStream);
export const data = (id: number, bytes: Uint8Array | string, flags = 0): Buffer =>
  rawFrame(FrameType.Data, flags, id, bytes);
export const lastData = (id: number, bytes: Uint8Array | string): Buffer => data(id, bytes, Flag.EndStream);
export const rst = (id: number, code: number): Buffer => rawFrame(FrameType.RstStream, 0, id, uint32(code));
export const goAway = (last: number, code = 0): Buffer =>
  rawFrame(FrameType.GoAway, 0, 0, Buffer.concat([uint32(last), uint32(code)]));
export const windowUpdate = (id: number, bytes: number): Buffer =>
  rawFrame(FrameType.WindowUpdate, 0, id, uint32(bytes));
export const ping = (flags = 0): Buffer => rawFrame(FrameType.Ping, flags, 0, Buffer.alloc(8));
export const settings = (...entries: readonly (readonly [number, number])[]): Buffer =>
  rawFrame(
    FrameType.Settings,
    0,
    0,
    Buffer.concat(entries.map(([setting, value]) => Buffer.concat([Buffer.from([0, setting]), uint32(value)]))),
  );

/** A client and its server. */
export interface ClientState {
  isOpen: boolean;
  /** Why the connection takes no more requests. */
  reason: string | undefined;
  isClosed: boolean;
}

/** Connects a client. @param preface the first bytes of the server. Without SETTINGS, the client is not open yet. */
export async function connectClient(preface: Buffer = settings(), limits: Partial<ClientLimits> = {}) {
  const server = await RawServer.start(preface);
  const onread = readsOf((bytes) => client.receive(bytes), false);
  const socket = connect({ port: server.port, host: "127.0.0.1", noDelay: true, onread });
  await once(socket, "connect");
  onTestFinished(() => void socket.destroy());
  const clock = new FakeClock();
  const state: ClientState = { isOpen: false, reason: undefined, isClosed: false };
  const client: Http2ClientConnection = new Http2ClientConnection(socket, {
    limits: { ...defaultHttp2ClientLimits, ...limits },
    clock,
    onOpen: () => (state.isOpen = true),
    onUnavailable: (reason) => (state.reason = reason),
    onClosed: () => (state.isClosed = true),
  });
  const peer = await server.peer();
  if (preface[3] === FrameType.Settings) await expect.poll(() => state.isOpen).toBe(true);
  const send = (
    request: Partial<ClientRequest> = {},
    idleTimeoutMs = 0,
    events: Partial<ClientExchangeEvents> = {},
  ) => {
    let sent = 0;
    const recorded = sendRecorded(
      (recorder) => client.send({ ...get, ...request }, idleTimeoutMs, { ...recorder, onSent: () => sent++ }),
      events,
    );
    return { ...recorded, sentHeads: () => sent };
  };
  /** Lets seconds pass. The client reads its socket between two of them. */
  const pass = async (seconds: number): Promise<void> => {
    for (let passed = 0; passed < seconds; passed++) {
      clock.advance(sweepMs);
      client.sweep();
      for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { client, peer, server, socket, state, send, pass };
}

/** Returns the fields of each header block that the server has received in a HEADERS frame. */
export function receivedHeads(peer: RawPeer): readonly (readonly string[])[] {
  const decoder = new HpackDecoder(4_096, 1_000_000);
  return peer.got(FrameType.Headers).map(({ payload }) => decoder.decode(payload, 0, payload.length));
}
