/** The peer's SETTINGS (RFC 9113 §6.5), checked; only what either side acts on is returned. */
import { ConnectionError, ErrorCode, maxWindowBytes, Setting } from "./frame.ts";

export interface PeerSettings {
  /** Window that streams begin with; absent when the frame did not say. */
  readonly initialWindowBytes?: number;
  /** Streams that it lets us have open at once; absent when the frame did not say. */
  readonly maxConcurrentStreams?: number;
  /** It would take, or make, pushed streams; a server may not say so (§6.5.2). */
  readonly enablesPush: boolean;
}

/** Reads the payload of a SETTINGS frame; the last of equal settings counts. Throws `ConnectionError` on a bad value. */
export function readSettings(buffer: Buffer, start: number, end: number): PeerSettings {
  let initialWindowBytes: number | undefined;
  let maxConcurrentStreams: number | undefined;
  let enablesPush = false;
  for (let at = start; at < end; at += 6) {
    const value = buffer.readUInt32BE(at + 2);
    switch (buffer.readUInt16BE(at)) {
      case Setting.EnablePush:
        demand(value <= 1, ErrorCode.ProtocolError, `ENABLE_PUSH ${value}, it is 0 or 1`);
        enablesPush = value === 1;
        break;
      case Setting.MaxConcurrentStreams:
        maxConcurrentStreams = value;
        break;
      case Setting.InitialWindowSize:
        demand(value <= maxWindowBytes, ErrorCode.FlowControlError, `INITIAL_WINDOW_SIZE ${value} is above 2^31-1`);
        initialWindowBytes = value;
        break;
      case Setting.MaxFrameSize:
        // We never send more than the smallest value that is allowed, so only the check matters.
        demand(
          value >= 16_384 && value <= 16_777_215,
          ErrorCode.ProtocolError,
          `MAX_FRAME_SIZE ${value}, it is 16384 to 16777215`,
        );
        break;
      default:
        // Others bind nothing that we do, and unknown ones are ignored (§6.5.2).
        break;
    }
  }
  return {
    enablesPush,
    ...(initialWindowBytes !== undefined && { initialWindowBytes }),
    ...(maxConcurrentStreams !== undefined && { maxConcurrentStreams }),
  };
}

function demand(holds: boolean, code: ErrorCode, message: string): void {
  if (!holds) {
    throw new ConnectionError(code, `SETTINGS: ${message}`);
  }
}
