/** A WebSocket server that echoes every message; `node websocket-backend.ts PORT`. */
import { WebSocketServer } from "ws";

const server = new WebSocketServer({ host: "127.0.0.1", port: Number(process.argv[2]) });
server.on("connection", (socket) => {
  socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
});
