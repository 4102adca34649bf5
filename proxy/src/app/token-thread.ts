/** Entry of the thread that counts tokens for all workers. Each message is the port of one worker. */
import { type MessagePort, parentPort } from "node:worker_threads";
import { serveTokens } from "../llm/tokens/serve-tokens.ts";

const main = parentPort;
if (main === null) throw new Error("this file is the entry of a worker thread and cannot run alone");
// Only TokenThread sends messages.
main.on("message", (port: MessagePort) => serveTokens(port));
