/** Clients that break the rules of good behavior, each with one connection of its own and for at most two seconds. */
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** One client. Resolves when its connection is closed. */
export type MisbehavingClient = (port: number) => Promise<void>;

/** The connection ends after this time, whatever the proxy does. */
const maxMs = 2_000;
const stepMs = 50;

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
const post = (path: string, length: number): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`;

/** Runs `use` on a connection, and closes it. */
function withSocket(use: (socket: Socket) => void | Promise<void>): MisbehavingClient {
  return async (port) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true, allowHalfOpen: true });
    socket.on("error", () => undefined);
    const closed = new Promise((resolve) => socket.once("close", resolve));
    const timer = setTimeout(() => socket.destroy(), maxMs);
    await Promise.race([once(socket, "connect"), closed]);
    await use(socket);
    await closed;
    clearTimeout(timer);
  };
}

/** Reads a response in parts of 4 KiB with pauses between them. */
async function readSlowly(socket: Socket): Promise<void> {
  socket.write(get("/large"));
  while (!socket.destroyed && !socket.readableEnded) {
    socket.read(4_096);
    await sleep(stepMs);
  }
}

async function writeSlowly(socket: Socket): Promise<void> {
  socket.resume();
  socket.write(post("/", 30));
  for (let bytes = 0; bytes < 30 && !socket.destroyed; bytes++) {
    socket.write("x");
    await sleep(stepMs);
  }
  socket.end();
}

function resetsAfterData(path: string): MisbehavingClient {
  return withSocket((socket) => {
    socket.once("data", () => socket.resetAndDestroy());
    socket.write(get(path));
  });
}

/** Cancels streams, and leaves others open when it closes its connection. */
const cancelsStreams: MisbehavingClient = async (port) => {
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  session.on("error", () => undefined);
  for (let count = 0; count < 10; count++) {
    const stream = session.request({ ":path": count % 2 === 0 ? "/slow" : "/large" });
    stream.on("error", () => undefined);
    if (count % 3 === 0) stream.once("response", () => stream.close(8));
  }
  await sleep(10 * stepMs);
  session.destroy();
};

/** Clients by the name of what they do. */
export const misbehavingClients: ReadonlyMap<string, MisbehavingClient> = new Map([
  ["resets its connection while the backend responds", resetsAfterData("/slow")],
  ["resets its connection in a large response", resetsAfterData("/large")],
  [
    "resets its connection in an upload",
    withSocket(async (socket) => {
      socket.write(post("/", 1_000_000) + "x".repeat(64 * 1024));
      await sleep(stepMs);
      socket.resetAndDestroy();
    }),
  ],
  [
    "closes its side after a request",
    withSocket((socket) => {
      socket.resume();
      socket.end(get("/slow"));
    }),
  ],
  ["does not end its head", withSocket((socket) => void socket.write("GET / HTTP/1.1\r\nHos"))],
  ["sends nothing", withSocket(() => undefined)],
  ["does not read", withSocket((socket) => void socket.pause().write(get("/large").repeat(8)))],
  ["reads slowly", withSocket(readSlowly)],
  ["writes slowly", withSocket(writeSlowly)],
  [
    "leaves with requests in its pipeline",
    withSocket(async (socket) => {
      socket.write(get("/slow").repeat(20));
      await sleep(stepMs);
      socket.destroy();
    }),
  ],
  [
    "sends a malformed chunk",
    withSocket((socket) => {
      socket.resume();
      socket.end("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX");
    }),
  ],
  ["gets a response that is reset", withSocket((socket) => void socket.resume().write(get("/reset")))],
  ["gets a response that ends early", withSocket((socket) => void socket.resume().write(get("/truncated")))],
  ["gets a response that stops", withSocket((socket) => void socket.resume().write(get("/stopped")))],
  ["gets no response", withSocket((socket) => void socket.resume().write(get("/silent")))],
  ["cancels streams", cancelsStreams],
]);
