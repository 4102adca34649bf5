/** Assertions of protocol rules. A violation ends the connection. */
import { ConnectionError, ErrorCode } from "./frame.ts";

/** Throws PROTOCOL_ERROR with the message unless the rule holds. */
export function assertProtocol(holds: boolean, message: string): void {
  if (!holds) {
    throw new ConnectionError(ErrorCode.ProtocolError, message);
  }
}

/** Throws FRAME_SIZE_ERROR unless the frame has the size that its type requires. */
export function assertFrameSize(holds: boolean, frame: string): void {
  if (!holds) {
    throw new ConnectionError(ErrorCode.FrameSizeError, `${frame} with a wrong size`);
  }
}

/** Returns the length of the padding of a payload, without the length byte (§6.1). */
export function paddingBytes(buffer: Buffer, start: number, end: number): number {
  const padding = buffer[start] ?? 0;
  assertProtocol(padding < end - start, "padding longer than its frame");
  return padding;
}
