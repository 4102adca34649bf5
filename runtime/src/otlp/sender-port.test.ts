/** A sender of one thread that sends through another, over a real port. */
import type { MessagePort } from "node:worker_threads";
import { describe, expect, onTestFinished, test } from "vitest";
import type { OtlpSender } from "./otlp-sender.ts";
import { openSenderThrough, serveSender } from "./sender-port.ts";

/** A sender through a port, and the end of the port that serves it. */
function openThrough(serve: (port: MessagePort) => void): OtlpSender {
  const sender = openSenderThrough(serve);
  onTestFinished(() => sender.close());
  return sender;
}

/** The sender of the thread that serves. A message `rejected` is rejected. */
function collectorSender() {
  const sent: string[] = [];
  const closed = Promise.withResolvers<undefined>();
  const sender: OtlpSender = {
    async send(message) {
      sent.push(message.toString());
      if (message.toString() === "rejected") throw new Error("connect ECONNREFUSED");
      await Promise.resolve();
    },
    close: () => closed.resolve(undefined),
  };
  return { sender, sent, closed: closed.promise };
}

test("messages arrive whole, whatever memory they are in, and each has its own outcome", async () => {
  const { sender, sent } = collectorSender();
  const through = openThrough((port) => serveSender(port, Promise.resolve(sender)));
  const large = "x".repeat(100_000);
  const pooled = Buffer.from("a message in the memory of a pool");
  const outcomes = await Promise.allSettled([
    through.send(pooled),
    through.send(Buffer.from("rejected")),
    through.send(Buffer.concat([Buffer.from(large)])),
  ]);
  expect(sent).toEqual([pooled.toString(), "rejected", large]);
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(outcomes[1]).toMatchObject({ reason: { message: "connect ECONNREFUSED" } });
});

test("the end of the sender ends the one of the other thread", async () => {
  const { sender, closed } = collectorSender();
  const through = openThrough((port) => serveSender(port, Promise.resolve(sender)));
  await through.send(Buffer.from("1"));
  through.close();
  await closed;
});

describe("a message fails", () => {
  test("if the sender of the other thread cannot be opened", async () => {
    const through = openThrough((port) => serveSender(port, Promise.reject(new Error("no certificate"))));
    await expect(through.send(Buffer.from("1"))).rejects.toThrow("no certificate");
  });

  test("if the other thread ends first", async () => {
    const through = openThrough((port) => port.once("message", () => port.close()));
    await expect(through.send(Buffer.from("1"))).rejects.toThrow("the connection to the sending thread is closed");
  });
});
