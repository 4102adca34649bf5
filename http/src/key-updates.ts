/**
 * Bounds the KeyUpdate messages of TLS 1.3 (RFC 8446 §4.6.3). Each takes 7 to 13 µs for 27 bytes, and no part of them
 * is seen by a program: OpenSSL reads a megabyte of them, for half a second, before it returns. It reports the new keys
 * for a log of keys, though.
 */
import type { TLSSocket } from "node:tls";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { FloodLimit } from "./http2/flood-limit.ts";

/**
 * Keys that a connection may change at once, and in a second from then on. Peers change theirs after gigabytes, and
 * each of their messages can change the keys of both sides.
 */
const [burst, perSecond] = [64, 2];

/** Closes a connection whose handshake is done if its peer changes its keys without end. */
export function boundKeyUpdates(socket: TLSSocket, clock: Clock): void {
  // Earlier versions have no such messages.
  if (socket.getProtocol() !== "TLSv1.3") return;
  const limit = new FloodLimit("keys", clock, burst, perSecond);
  // Its argument holds the key, and is not read.
  socket.on("keylog", () => {
    if (!limit.tryCount() && !socket.destroyed) socket.destroy(new Error("too many KeyUpdate messages of TLS"));
  });
}
