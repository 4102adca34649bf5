/** The thread that counts tokens, as the main thread sees it. It starts when the first worker needs it. */
import { type MessagePort, Worker } from "node:worker_threads";
import type { Logger } from "@gatewayproxy/runtime/log";

/** Maximum heap in MiB: room for the tables of both encodings, for their construction, and for texts. */
const heapMib = 256;

/** At most one thread. If it dies, the ports of the workers close, and their next connection starts another. */
export class TokenThread {
  readonly #log: Logger;
  #thread: Worker | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Passes the port of a worker to the thread. */
  connect(port: MessagePort): void {
    this.#thread ??= this.#start();
    this.#thread.postMessage(port, [port]);
  }

  /** Ends the thread. */
  async close(): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    await thread?.terminate();
  }

  #start(): Worker {
    const thread = new Worker(new URL("./token-thread.ts", import.meta.url), {
      name: "token counter",
      resourceLimits: { maxOldGenerationSizeMb: heapMib },
    });
    thread.unref();
    thread.on("error", (err: unknown) => this.#log.error({ err }, "the token counter died; estimates use bytes"));
    thread.on("exit", () => {
      if (this.#thread === thread) this.#thread = undefined;
    });
    return thread;
  }
}
