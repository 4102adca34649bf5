import { once } from "node:events";
import { connect, constants, createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { watchStreams } from "./http2-streams.ts";

watchStreams();

async function openStream() {
  const server = createServer();
  const resets = Promise.withResolvers<number>();
  server.on("stream", (stream) => {
    stream.on("error", () => undefined);
    stream.on("close", () => resets.resolve(stream.rstCode));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A TCP server that listens has such an address.
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  session.on("error", () => undefined);
  onTestFinished(async () => {
    session.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  const stream = session.request({ ":method": "POST" });
  await Promise.all([once(server, "stream"), once(stream, "ready")]);
  return { session, stream, reset: resets.promise };
}

test.each([undefined, constants.NGHTTP2_REFUSED_STREAM])(
  "a stream closed with %s is reset with CANCEL",
  async (code) => {
    const { stream, reset } = await openStream();
    // More than the server's window, so that the rest cannot leave.
    stream.write(Buffer.alloc(200_000));
    stream.close(code);
    expect(await reset).toBe(constants.NGHTTP2_CANCEL);
  },
);

test("a stream without listeners fails silently with its connection", async () => {
  const { session, stream } = await openStream();
  session.destroy(new Error("socket idle timeout"));
  await new Promise((resolve) => stream.once("close", resolve));
  expect(stream.destroyed).toBe(true);
});
