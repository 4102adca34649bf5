/** Checks of the protocol's rules whose breach ends the connection. */
import { ConnectionError, ErrorCode } from "./frame.ts";

/** Throws PROTOCOL_ERROR with the message unless the rule holds. */
export function demand(holds: boolean, message: string): void {
  if (!holds) {
    throw new ConnectionError(ErrorCode.ProtocolError, message);
  }
}

/** Throws FRAME_SIZE_ERROR unless the frame has the size that its type prescribes. */
export function demandSize(holds: boolean, frame: string): void {
  if (!holds) {
    throw new ConnectionError(ErrorCode.FrameSizeError, `${frame} of a wrong size`);
  }
}

/** Bytes that padding takes of a payload, the length byte not counted (§6.1). */
export function paddingBytes(buffer: Buffer, start: number, end: number): number {
  const padding = buffer[start] ?? 0;
  demand(padding < end - start, "padding longer than its frame");
  return padding;
}
