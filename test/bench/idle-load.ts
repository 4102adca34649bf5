/**
 * Idle connections: opens them, sends one request on each, reads its response, prints `ready`, and keeps them open
 * until its standard input ends; `node idle-load.ts PORT CONNECTIONS`.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";

const [port = "", connections = ""] = process.argv.slice(2);
/** Connections that are opened at the same time. */
const concurrency = 64;

const sockets: Socket[] = [];
let remaining = Number(connections);
await Promise.all(Array.from({ length: concurrency }, openSome));
console.log("ready");
await text(process.stdin);
for (const socket of sockets) socket.removeAllListeners("close").destroy();

async function openSome(): Promise<void> {
  while (remaining > 0) {
    remaining -= 1;
    const socket = connect(Number(port), "127.0.0.1");
    sockets.push(socket);
    await once(socket, "connect");
    socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    const [chunk] = (await once(socket, "data")) as [Buffer];
    const response = chunk.toString("latin1");
    if (!response.startsWith("HTTP/1.1 200 ")) throw new Error(`a response is ${response}`);
    socket.resume();
    socket.on("close", () => {
      throw new Error("an idle connection was closed");
    });
  }
}
