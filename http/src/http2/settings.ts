/** Parses and validates the peer's SETTINGS (RFC 9113 §6.5). Only settings that client or server use are returned. */
import { ConnectionError, ErrorCode, maxWindowBytes, Setting } from "./frame.ts";

/** The settings of a SETTINGS frame. */
export interface PeerSettings {
  /** The initial window of streams; absent if the frame does not set it. */
  readonly initialWindowBytes?: number;
  /** The maximum number of concurrent streams; absent if the frame does not set it. */
  readonly maxConcurrentStreams?: number;
  /** Whether the peer enables push; a server must not (§6.5.2). */
  readonly enablesPush: boolean;
  /** Whether the peer accepts extended CONNECT (RFC 8441 §3); absent if the frame does not set it. */
  readonly enablesConnect?: boolean;
}

/**
 * Parses the payload of a SETTINGS frame; the last of equal settings applies. Throws `ConnectionError` on a bad value.
 */
export function readSettings(buffer: Buffer, start: number, end: number): PeerSettings {
  let initialWindowBytes: number | undefined;
  let maxConcurrentStreams: number | undefined;
  let enablesPush = false;
  let enablesConnect: boolean | undefined;
  for (let at = start; at < end; at += 6) {
    const value = buffer.readUInt32BE(at + 2);
    switch (buffer.readUInt16BE(at)) {
      case Setting.EnablePush:
        assertSetting(value <= 1, ErrorCode.ProtocolError, `ENABLE_PUSH ${value} must be 0 or 1`);
        enablesPush = value === 1;
        break;
      case Setting.EnableConnectProtocol:
        assertSetting(value <= 1, ErrorCode.ProtocolError, `ENABLE_CONNECT_PROTOCOL ${value} must be 0 or 1`);
        enablesConnect = value === 1;
        break;
      case Setting.MaxConcurrentStreams:
        maxConcurrentStreams = value;
        break;
      case Setting.InitialWindowSize:
        assertSetting(
          value <= maxWindowBytes,
          ErrorCode.FlowControlError,
          `INITIAL_WINDOW_SIZE ${value} is above 2^31-1`,
        );
        initialWindowBytes = value;
        break;
      case Setting.MaxFrameSize:
        // No frame above the minimum is ever sent, so only the check matters.
        assertSetting(
          value >= 16_384 && value <= 16_777_215,
          ErrorCode.ProtocolError,
          `MAX_FRAME_SIZE ${value} must be 16384 to 16777215`,
        );
        break;
      default:
        // Other settings do not affect what is sent, and unknown ones are ignored (§6.5.2).
        break;
    }
  }
  return {
    enablesPush,
    ...(initialWindowBytes !== undefined && { initialWindowBytes }),
    ...(maxConcurrentStreams !== undefined && { maxConcurrentStreams }),
    ...(enablesConnect !== undefined && { enablesConnect }),
  };
}

function assertSetting(holds: boolean, code: ErrorCode, message: string): void {
  if (!holds) {
    throw new ConnectionError(code, `SETTINGS: ${message}`);
  }
}
