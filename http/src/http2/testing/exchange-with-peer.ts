/** Requests of a client to a server whose frames a test sends, and the frames that the server received. */
import type { ClientRequest } from "../../ports.ts";
import { FrameType } from "../frame.ts";
import { connectClient } from "./connect-client.ts";
import type { RawPeer } from "./raw-server.ts";

/** The fields of a response head. */
export const ok = [":status", "200"];

/** Returns a POST with a body. */
export const upload = (
  body: ClientRequest["body"],
  fields: readonly string[] = ["Host", "a"],
): Partial<ClientRequest> => ({
  method: "POST",
  fields,
  body,
});

/** Sends a request, responds with `frames`, and returns what the client received. */
export async function exchange(frames: readonly Buffer[], request: Partial<ClientRequest> = {}) {
  const connected = await connectClient();
  const { received, over, exchange: sent } = connected.send(request);
  await connected.peer.until(FrameType.Headers);
  connected.peer.send(...frames);
  await over;
  return { ...connected, received, exchange: sent };
}

/** Bytes of DATA that the server received on a stream. */
export const dataBytes = (peer: RawPeer, id: number): number =>
  peer.got(FrameType.Data, id).reduce((sum, { payload }) => sum + payload.length, 0);
/** Codes of the RST_STREAM frames that the server received. */
export const resetCodes = (peer: RawPeer): readonly number[] =>
  peer.got(FrameType.RstStream).map(({ payload }) => payload.readUInt32BE(0));
/** Resolves with the code of the GOAWAY that the server receives. */
export const goAwayCode = async (peer: RawPeer): Promise<number> =>
  (await peer.until(FrameType.GoAway)).payload.readUInt32BE(4);
