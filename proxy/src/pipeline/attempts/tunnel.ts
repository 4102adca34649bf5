/**
 * What follows a switch of protocols: two byte streams joined until both have ended. Nothing is understood and nothing
 * held; each side is read at the pace of the other, and an end or a break of one is passed on to the other.
 */
import type { Duplex } from "node:stream";
import type { SwitchedStream } from "@gatewayproxy/http/ports";

/** Bytes as they pass, added up where the access log finds them. */
export interface TunnelCounts {
  requestBytes: number;
  responseBytes: number;
}

/** A client that has sent and taken nothing for so long is taken for gone. */
export const idleTimeoutMs = 3_600_000;
/** Once one side has ended, the other may be idle for so long; a client that closed its socket looks the same. */
export const halfClosedIdleTimeoutMs = 60_000;

/**
 * Joins both ends. Their owners are notified of the end by their "close".
 *
 * @param onBroken called when the backend's connection broke, at most once and before the client's "close".
 */
export function joinTunnel(client: SwitchedStream, backend: Duplex, counts: TunnelCounts, onBroken: () => void): void {
  client.setTimeout(idleTimeoutMs, () => client.destroy());
  pass(client, backend, (bytes) => {
    counts.requestBytes += bytes;
  });
  pass(backend, client, (bytes) => {
    counts.responseBytes += bytes;
  });
  const shortenWait = (): void => void client.setTimeout(halfClosedIdleTimeoutMs);
  client.once("end", shortenWait);
  backend.once("end", shortenWait);
  client.on("error", () => backend.destroy());
  backend.on("error", () => {
    onBroken();
    client.destroy();
  });
  client.on("close", () => backend.destroy());
  // Written bytes are still in transit, and nothing follows them.
  backend.on("close", () => client.end(() => client.destroy()));
}

function pass(from: Duplex, to: Duplex, count: (bytes: number) => void): void {
  from.on("data", (chunk: Buffer) => {
    count(chunk.length);
    if (!to.write(chunk)) from.pause();
  });
  to.on("drain", () => from.resume());
  from.on("end", () => to.end());
  from.resume();
}
