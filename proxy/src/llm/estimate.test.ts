import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { streamedText } from "./estimate.ts";

test("reads the text of nested arrays and objects, without labels", () => {
  const event = { delta: [{ type: "text", text: "abc", parts: [["de"], { role: "x", content: "f" }] }], other: "gh" };
  expect(streamedText(Buffer.from(`data: ${JSON.stringify(event)}\n`))).toEqual({ ofModels: 8, ofAll: 8 });
});

test.each([
  ["text in an unknown member beside a member with text of a model", { message: "o", text: "abcd" }, 5],
  ["no text in an unknown member alone", { status: "abcd" }, 0],
  [
    "the envelope of a chunk of OpenAI's",
    {
      ...{ id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m", system_fingerprint: "fp_1" },
      choices: [{ index: 0, delta: { content: "abc" }, finish_reason: null }],
    },
    3,
  ],
  [
    "no repeated text of an event of OpenAI's responses",
    { type: "response.output_text.done", delta: "a", text: "abcd" },
    1,
  ],
])("counts %s", (_, event, ofModels) => {
  expect(streamedText(Buffer.from(`data: ${JSON.stringify(event)}\n`)).ofModels).toBe(ofModels);
});

test("reads an event of any nesting with a small stack", async () => {
  const source = `
    const { workerData, parentPort } = require("node:worker_threads");
    import(workerData.module).then(({ streamedText }) => {
      const deep = "[".repeat(16_000) + '"abc"' + "]".repeat(16_000);
      parentPort.postMessage(streamedText(Buffer.from('data:{"delta":' + deep + "}\\n")));
    });`;
  const module = new URL("./estimate.ts", import.meta.url).href;
  const worker = new Worker(source, { eval: true, workerData: { module }, resourceLimits: { stackSizeMb: 0.5 } });
  const read = await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
  expect(read).toEqual({ ofModels: 3, ofAll: 3 });
  await worker.terminate();
});
