/** Uploads at the speed of the network, of which the server reads a bounded part in a turn of the event loop. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { expect, onTestFinished, test } from "vitest";
import { clientPreface, endHeaders, frame, frameType, rootRequest } from "../../test/support/raw-http2.ts";
import { Http1Server } from "./http1/server.ts";
import { defaultHttp2Limits } from "./http2/server/server-limits.ts";
import { Http2Server } from "./http2/server/server.ts";
import type { ServerExchange, ServerExchangeEvents } from "./ports.ts";
import { RequestTurns } from "./request-turns.ts";

const connections = 20;
const bigWindow = 2 ** 31 - 1;

/** Starts both servers. Each reads the bodies of its requests, and counts their bytes. */
async function start(isHttp2: boolean) {
  const turns = new RequestTurns(systemClock);
  const state = { bytes: 0, ended: 0 };
  const http1Limits = { headBytes: 4_096, trailerBytes: 1_024, fields: 20, target: 1_024 };
  const windows = { streamWindowBytes: bigWindow, connectionWindowBytes: bigWindow };
  const http1 = new Http1Server({ limits: http1Limits, clock: systemClock, turns });
  const http2 = new Http2Server({ limits: { ...defaultHttp2Limits, ...windows }, clock: systemClock, turns });
  const onRequest = (exchange: ServerExchange): ServerExchangeEvents => {
    exchange.body?.read({
      onData: ({ length }) => (state.bytes += length),
      onEnd: () => {
        state.ended++;
        exchange.respond(200, [], "");
      },
      onAborted: () => undefined,
    });
    return { onDrain: () => undefined, onBodyRejected: () => undefined, onClose: () => undefined };
  };
  const rest = { onRejected: () => undefined, onTooLarge: () => undefined, onHolding: () => undefined };
  const onFault = (error: unknown): void => {
    throw error;
  };
  const server = createServer({ allowHalfOpen: !isHttp2 }, (socket) => {
    socket.on("error", () => undefined);
    onTestFinished(() => void socket.destroy());
    if (isHttp2) http2.serve(socket, { readHead: (head) => head, onRequest, ...rest, onFault });
    else http1.serve(socket, { onRequest, ...rest, onFault });
  }).listen(0, "127.0.0.1");
  onTestFinished(() => {
    http1.close();
    http2.close();
    server.close();
  });
  await once(server, "listening");
  // A listening TCP server has an address with a port.
  return { state, port: (server.address() as AddressInfo).port };
}

const bodyBytes = 16 * 1024 * 1024;
const http1Upload = [
  Buffer.from(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${bodyBytes}\r\n\r\n`),
  Buffer.alloc(bodyBytes),
];
const part = Buffer.alloc(16_384);
const http2Upload = [
  Buffer.from(clientPreface),
  frame(frameType.settings, 0, 0),
  frame(frameType.headers, endHeaders, 1, Buffer.concat([Buffer.of(0x83), rootRequest.subarray(1)])),
  ...Array.from({ length: bodyBytes / part.length - 1 }, () => frame(frameType.data, 0, 1, part)),
  frame(frameType.data, 1, 1, part),
];

test.each([
  { name: "HTTP/1", isHttp2: false, upload: Buffer.concat(http1Upload) },
  { name: "HTTP/2", isHttp2: true, upload: Buffer.concat(http2Upload) },
])("a turn of the event loop reads a bounded part of uploads over $name, and all of them end", async (each) => {
  const { state, port } = await start(each.isHttp2);
  for (let at = 0; at < connections; at++) {
    const socket = connect({ port, host: "127.0.0.1" })
      .on("error", () => undefined)
      .resume();
    onTestFinished(() => void socket.destroy());
    socket.write(each.upload);
  }
  let most = 0;
  while (state.ended < connections) {
    const before = state.bytes;
    await turn();
    most = Math.max(most, state.bytes - before);
  }
  expect(state.bytes).toBe(connections * bodyBytes);
  // A quarter of a MiB, then a read of each socket, and the turns of clients.
  expect(most).toBeLessThanOrEqual(256 * 1024 + connections * 64 * 1024 + 8 * 1024 * 1024);
});
