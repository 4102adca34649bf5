/**
 * The streaming backend of the benchmark, as a program: responds to every request with one chat completion as an event
 * stream, one chunk per turn of the event loop, like a model that produces a token at a time. Its only argument is the
 * port on 127.0.0.1. Uploads get their length as the response.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { streamChunks, uploadPath } from "./cases.ts";

const chunk = Buffer.from(
  `data: ${JSON.stringify({
    id: "chatcmpl-0123456789abcdef",
    object: "chat.completion.chunk",
    created: 1_760_000_000,
    model: "mock",
    choices: [{ index: 0, delta: { content: " word" }, logprobs: null, finish_reason: null }],
  })}\n\n`,
);
const ending = Buffer.from(
  `data: ${JSON.stringify({
    id: "chatcmpl-0123456789abcdef",
    object: "chat.completion.chunk",
    choices: [],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  })}\n\ndata: [DONE]\n\n`,
);

function stream(response: ServerResponse, left: number): void {
  if (response.destroyed) return;
  if (left === 0) {
    response.end(ending);
    return;
  }
  // Waits for a slow client; otherwise the next chunk follows after other work that is due.
  if (response.write(chunk)) setImmediate(stream, response, left - 1);
  else response.once("drain", () => stream(response, left - 1));
}

/** Counts the body, and responds with its length. */
function receive(request: IncomingMessage, response: ServerResponse): void {
  let length = 0;
  request.on("data", (bytes: Buffer) => (length += bytes.length));
  request.on("end", () => response.end(String(length)));
}

createServer((request, response) => {
  if (request.url === uploadPath) {
    receive(request, response);
    return;
  }
  request.resume();
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  stream(response, streamChunks);
}).listen(Number(process.argv[2]), "127.0.0.1");
