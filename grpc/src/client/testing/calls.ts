/** A client under test, and the frames of a scripted service. */
import { connect } from "node:net";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { Flag, FrameType } from "@gatewayproxy/http/http2/frame";
import { rawFrame, uint32 } from "@gatewayproxy/http/http2/testing/raw-frame";
import { onTestFinished } from "vitest";
import type { ConnectionOptions, OpenSocket } from "../endpoint-connection.ts";
import { UnaryGrpcClient } from "../unary-grpc-client.ts";
import type { CallOutcome } from "../unary-client.ts";

export const path = "/test.Service/Method";
export const ok = Buffer.from([8, 1]);
export const responded = { kind: "responded", message: ok };
export const headers = (streamId: number, block: Uint8Array, flags: number = Flag.EndHeaders): Buffer =>
  rawFrame(FrameType.Headers, flags, streamId, block);
export const lastHeaders = (streamId: number, block: Uint8Array): Buffer =>
  headers(streamId, block, Flag.EndHeaders | Flag.EndStream);
export const data = (streamId: number, bytes: Uint8Array): Buffer => rawFrame(FrameType.Data, 0, streamId, bytes);
export const settings = (...entries: readonly (readonly [number, number])[]): Buffer =>
  rawFrame(
    FrameType.Settings,
    0,
    0,
    Buffer.concat(entries.map(([setting, value]) => Buffer.concat([Buffer.from([0, setting]), uint32(value)]))),
  );

/** Connects without TLS. */
export const openPlainSocket: OpenSocket<never> = ({ host, port }, _tls, listener) => {
  const socket = connect({ host, port, noDelay: true });
  socket.once("connect", listener.onConnect).on("data", listener.onRead);
  return socket;
};

/** Returns a client of these ports until the test ends, and functions for calls on it. */
export function clientOf(ports: readonly number[], options: Partial<ConnectionOptions<never>> = {}) {
  const client = new UnaryGrpcClient<never>({
    clock: systemClock,
    random: () => 0.5,
    openSocket: openPlainSocket,
    ...options,
  });
  const endpointsOf = (list: readonly number[]) => ({
    endpoints: list.map((port) => ({ host: "127.0.0.1", port })),
  });
  client.update(endpointsOf(ports));
  onTestFinished(() => client.close());
  const call = (message: Buffer = Buffer.from("ask"), timeoutMs = 10_000): Promise<CallOutcome> =>
    new Promise((resolve) => client.call(path, message, timeoutMs, resolve));
  return { client, call, update: (list: readonly number[]) => client.update(endpointsOf(list)) };
}
