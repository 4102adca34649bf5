/** The queue of an export: its bounds, its batches, and a collector that is away or slow. */
import { describe, expect, test } from "vitest";
import { FakeClock } from "../testing/fake-clock.ts";
import type { BatchSettings } from "../tracing/otel-variables.ts";
import { writeSpan } from "../tracing/otlp-spans.ts";
import type { FinishedSpan } from "../tracing/span.ts";
import { ExportQueue } from "./export-queue.ts";
import { messagesOfScope } from "./otlp-fields.ts";

const span: FinishedSpan = {
  ...{ name: "GET", kind: "server", traceId: "1".repeat(32), spanId: "2".repeat(16), parentSpanId: undefined },
  ...{ isParentRemote: false, tracestate: undefined, startMs: 1, endMs: 2, isError: false, attributes: {} },
};
const spans = (count: number, attributes: FinishedSpan["attributes"] = {}): readonly FinishedSpan[] =>
  Array.from({ length: count }, () => ({ ...span, attributes }));

const origin = { resource: { "service.name": "edge" }, scope: { name: "gateway-proxy", version: "1" } };

/** A queue before a collector that responds when the test says so. */
function queueWith(batch: Partial<BatchSettings>) {
  const clock = new FakeClock();
  const sent: Buffer[] = [];
  const responses: PromiseWithResolvers<undefined>[] = [];
  const ended: string[] = [];
  const problems: string[] = [];
  let closed = 0;
  const queue = new ExportQueue({
    batch: { scheduledDelayMs: 100, exportTimeoutMs: 1_000, maxQueueSize: 100, maxExportBatchSize: 10, ...batch },
    items: { write: writeSpan, messageOf: messagesOfScope(origin) },
    sender: {
      async send(message) {
        sent.push(message);
        const response = Promise.withResolvers<undefined>();
        responses.push(response);
        await response.promise;
      },
      close: () => void closed++,
    },
    clock,
    observer: {
      ended: (outcome, count) => void ended.push(`${outcome} ${count}`),
      problem: (message) => void problems.push(message),
    },
  });
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  return {
    ...{ clock, queue, sent, ended, problems },
    closed: () => closed,
    accept: async () => {
      responses.shift()?.resolve(undefined);
      await settled();
    },
    reject: async () => {
      responses.shift()?.reject(new Error("connect ECONNREFUSED"));
      await settled();
    },
  };
}

describe("batches", () => {
  test("are sent when they are full, one at a time, and after the delay", async () => {
    const { clock, queue, sent, ended, accept } = queueWith({});
    queue.add(spans(12));
    queue.add(spans(9));
    expect(sent).toHaveLength(1);
    await accept();
    expect(sent).toHaveLength(2);
    await accept();
    expect(sent).toHaveLength(2);
    clock.advance(99);
    expect(sent).toHaveLength(2);
    clock.advance(1);
    await accept();
    expect(ended).toEqual(["exported 10", "exported 10", "exported 1"]);
  });

  test("end before a collector would reject them for their size", () => {
    const { queue, sent } = queueWith({ maxQueueSize: 1_000, maxExportBatchSize: 1_000 });
    for (let at = 0; at < 30; at++) queue.add(spans(10, { path: "x".repeat(10_000) }));
    expect(sent).toHaveLength(1);
    expect(sent[0]?.length).toBeLessThan(2 * 1_024 * 1_024);
  });
});

describe("a collector that is slow or away", () => {
  test("makes no span wait: they are dropped beyond the bound, all of a request or none", async () => {
    const { queue, sent, ended, accept } = queueWith({ maxQueueSize: 10 });
    queue.add(spans(8));
    queue.add(spans(3));
    queue.add(spans(2));
    expect(ended).toEqual(["dropped 3"]);
    expect(sent).toHaveLength(1);
    queue.add(spans(1));
    await accept();
    queue.add(spans(10));
    expect(ended).toEqual(["dropped 3", "dropped 1", "exported 10"]);
  });

  test("makes no item wait beyond a bound of the bytes, and the queue takes items again when they are sent", async () => {
    const { queue, ended, accept } = queueWith({ maxQueueSize: 100_000, maxExportBatchSize: 1_000 });
    const large = spans(1, { path: "x".repeat(65_536) });
    for (let at = 0; at < 600; at++) queue.add(large);
    const dropped = ended.length;
    expect(dropped).toBeGreaterThan(50);
    expect(dropped).toBeLessThan(100);
    await accept();
    ended.length = 0;
    queue.add(large);
    expect(ended).toEqual([]);
  });

  test("is reported, and the next batch is sent", async () => {
    const { queue, sent, ended, problems, reject, accept } = queueWith({});
    queue.add(spans(20));
    await reject();
    await accept();
    expect(ended).toEqual(["failed 10", "exported 10"]);
    expect(problems).toEqual(["connect ECONNREFUSED"]);
    expect(sent).toHaveLength(2);
  });
});

test("the end sends what is queued, drops what comes later, and waits no longer than its time", async () => {
  const { queue, sent, ended, accept, closed } = queueWith({});
  queue.add(spans(1));
  const end = queue.close(1_000);
  queue.add(spans(1));
  expect([sent.length, closed()]).toEqual([1, 0]);
  await accept();
  await end;
  expect(ended).toEqual(["dropped 1", "exported 1"]);
  expect(closed()).toBe(1);
  const stuck = queueWith({});
  stuck.queue.add(spans(1));
  await stuck.queue.close(1);
  expect(stuck.ended).toEqual([]);
});
