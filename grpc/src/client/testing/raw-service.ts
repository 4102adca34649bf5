/** Responses of a scripted service. */
import { Flag, FrameType } from "@gatewayproxy/http/http2/frame";
import { encodeHeaderBlock } from "@gatewayproxy/http/http2/hpack/hpack-encoder";
import { rawFrame } from "@gatewayproxy/http/http2/testing/raw-frame";
import type { RawPeer } from "@gatewayproxy/http/http2/testing/raw-server";

export const responseHead = encodeHeaderBlock([":status", "200", "content-type", "application/grpc"]);
export const okTrailers = encodeHeaderBlock(["grpc-status", "0"]);

/** Returns `message` with the framing of gRPC. */
export function framed(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** Sends a complete, valid response to a call. */
export function respond(peer: RawPeer, streamId: number, message: Uint8Array): void {
  peer.send(
    rawFrame(FrameType.Headers, Flag.EndHeaders, streamId, responseHead),
    rawFrame(FrameType.Data, 0, streamId, framed(message)),
    rawFrame(FrameType.Headers, Flag.EndHeaders | Flag.EndStream, streamId, okTrailers),
  );
}
