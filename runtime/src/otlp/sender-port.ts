/**
 * A sender of one thread that sends through another one. A thread that serves requests hands its messages over, so that
 * it loads no transport, and so that its sockets are the only ones in its event loop.
 */
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { errorMessage } from "../text/thrown-value.ts";
import type { OtlpSender } from "./otlp-sender.ts";

/** A message to the sending thread. */
interface Sent {
  readonly id: number;
  readonly message: Uint8Array;
}

/** What became of a message: taken by the collector, or the reason why not. */
interface Response {
  readonly id: number;
  readonly error: string | undefined;
}

/** Opens a sender that sends through the thread to which `connect` passes a port, for `serveSender`. */
export function openSenderThrough(connect: (port: MessagePort) => void): OtlpSender {
  const { port1: port, port2 } = new MessageChannel();
  const pending = new Map<number, PromiseWithResolvers<undefined>>();
  let lastId = 0;
  port.on("message", ({ id, error }: Response) => {
    const response = pending.get(id);
    pending.delete(id);
    if (error === undefined) response?.resolve(undefined);
    else response?.reject(new Error(error));
  });
  port.on("close", () => {
    const reason = new Error("the connection to the sending thread is closed");
    for (const { reject } of pending.values()) reject(reason);
    pending.clear();
  });
  // An export keeps no thread alive.
  port.unref();
  connect(port2);
  return {
    async send(message) {
      const id = ++lastId;
      const response = Promise.withResolvers<undefined>();
      pending.set(id, response);
      const bytes = ownBytes(message);
      port.postMessage({ id, message: bytes } satisfies Sent, [bytes.buffer]);
      await response.promise;
    },
    close: () => port.close(),
  };
}

/** Sends the messages of a port until it closes. */
export function serveSender(port: MessagePort, opening: Promise<OtlpSender>): void {
  // The first message may come later than the failure, which is its outcome.
  const closing = Promise.withResolvers<undefined>();
  void Promise.all([opening, closing.promise]).then(
    ([sender]) => sender.close(),
    () => undefined,
  );
  port.on("message", ({ id, message }: Sent) => {
    const send = async (): Promise<string | undefined> => {
      try {
        const sender = await opening;
        await sender.send(Buffer.from(message.buffer, message.byteOffset, message.byteLength));
        return undefined;
      } catch (error) {
        return errorMessage(error);
      }
    };
    void send().then((error) => port.postMessage({ id, error } satisfies Response));
  });
  port.on("close", () => closing.resolve(undefined));
}

/** Returns the bytes in memory of their own, which can be transferred: short buffers share the memory of a pool. */
function ownBytes(message: Buffer): Uint8Array<ArrayBuffer> {
  const { buffer, byteLength } = message;
  const isOwn = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength;
  return isOwn ? new Uint8Array(buffer) : new Uint8Array(message);
}
