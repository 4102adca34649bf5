/**
 * Load of WebSocket messages: each connection sends one, waits for its echo, and sends the next. Prints one line,
 * `result MESSAGES MICROSECONDS P50_US P99_US P99.9_US`; `node websocket-load.ts URL CONNECTIONS SECONDS`.
 */
import { once } from "node:events";
import { WebSocket } from "ws";
import { percentile } from "./statistics.ts";

const [url = "", connections = "", seconds = ""] = process.argv.slice(2);
/** About the size of a message of a chat client. */
const message = Buffer.alloc(120, "x");
const durationsMs: number[] = [];

const sockets = await Promise.all(Array.from({ length: Number(connections) }, () => open()));
const startMs = performance.now();
const endMs = startMs + Number(seconds) * 1_000;
await Promise.all(sockets.map(exchange));
const percentilesUs = [50, 99, 99.9].map((percent) => Math.round(percentile(durationsMs, percent) * 1_000));
const tookUs = Math.round((performance.now() - startMs) * 1_000);
console.log(`result ${durationsMs.length} ${tookUs} ${percentilesUs.join(" ")}`);
for (const socket of sockets) socket.terminate();

async function open(): Promise<WebSocket> {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  await once(socket, "open");
  return socket;
}

/** Rejects if the connection breaks or another message is received. */
function exchange(socket: WebSocket): Promise<void> {
  return new Promise((resolve, reject) => {
    let sentMs = performance.now();
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("a connection was closed")));
    socket.on("message", (data: Buffer) => {
      const nowMs = performance.now();
      durationsMs.push(nowMs - sentMs);
      if (!data.equals(message)) {
        reject(new Error("a received message differs"));
      } else if (nowMs >= endMs) {
        resolve();
      } else {
        sentMs = nowMs;
        socket.send(message);
      }
    });
    socket.send(message);
  });
}
