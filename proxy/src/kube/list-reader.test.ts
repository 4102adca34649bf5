import fc from "fast-check";
import { expect, test } from "vitest";
import { type KubeObject, readList } from "./object.ts";
import { ListReader, readListItems } from "./list-reader.ts";

async function* chunksOf(text: string, sizes: readonly number[]): AsyncGenerator<Buffer, void> {
  const bytes = Buffer.from(text);
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const end = at + (sizes[index % sizes.length] ?? 1);
    await Promise.resolve();
    yield bytes.subarray(at, end);
    at = end;
  }
}

async function read(text: string, sizes: readonly number[] = [7]) {
  const pages = readListItems(chunksOf(text, sizes));
  const items: KubeObject[] = [];
  for (;;) {
    const next = await pages.next();
    if (next.done === true) return { items, ...next.value };
    items.push(...next.value);
  }
}

const item = fc.record({
  metadata: fc.record({ name: fc.string() }),
  items: fc.array(fc.jsonValue()),
  spec: fc.jsonValue(),
});
const fields = fc.record({
  apiVersion: fc.constant("v1"),
  kind: fc.constant("ConfigMapList"),
  metadata: fc.record({ resourceVersion: fc.stringMatching(/^\d+$/), continue: fc.string(), note: fc.string() }),
  items: fc.array(item),
});
const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 });

test("a list is read as by JSON.parse, wherever its chunks end and whatever the order of its fields", async () => {
  const order = fc.shuffledSubarray(["apiVersion", "kind", "metadata", "items"] as const, { minLength: 4 });
  await fc.assert(
    fc.asyncProperty(fields, order, sizes, fc.constantFrom(0, 2), async (list, names, lengths, indent) => {
      const text = JSON.stringify(Object.fromEntries(names.map((name) => [name, list[name]])), undefined, indent);
      expect(await read(text, lengths)).toEqual(readList(JSON.parse(text)));
    }),
  );
});

test.each([
  ["nothing", ""],
  ["text", "upstream is unavailable"],
  ["an object without metadata", '{"items":[]}'],
  ["a list that is cut off", '{"metadata":{"resourceVersion":"1"},"items":[{"kind":"A"}'],
  ["an item that is no object", '{"metadata":{"resourceVersion":"1"},"items":[1]}'],
  ["an item that is no JSON", '{"metadata":{"resourceVersion":"1"},"items":[{a}]}'],
])("%s is an error", async (_case, text) => {
  await expect(read(text)).rejects.toThrow();
});

test("a list without items is empty", async () => {
  const text = '{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"3"},"items":null}';
  expect(await read(text)).toEqual({ items: [], version: "3", next: undefined });
});

test("an item is returned when it has been received, and is not kept", () => {
  const reader = new ListReader();
  expect(reader.read(Buffer.from('{"items":[{"a":"}]"},'))).toEqual([Buffer.from('{"a":"}]"}')]);
  expect(reader.read(Buffer.from(' {"b":["\\\\"'))).toEqual([]);
  expect(reader.read(Buffer.from("]}]}")).map(String)).toEqual(['{"b":["\\\\"]}']);
  expect(reader.rest).toBe('{"items":[]}');
});
