import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import type { JsonReading, MemberNames } from "../../llm/request-json.ts";
import { readBody } from "./body-reading.ts";

const names: MemberNames = { model: [] };
const small = Buffer.from('{"model":1}');
/** A body of many slices. */
const large = Buffer.from(`{"x":[${"0,".repeat(2 * 1024 * 1024)}0],"model":1}`);

/** Returns the number of turns of the event loop until `isDone`. */
async function turnsUntil(isDone: () => boolean): Promise<number> {
  let turns = 0;
  while (!isDone()) {
    await turn();
    turns++;
  }
  return turns;
}

test("a small body is read at once, also while others wait", () => {
  const readings: JsonReading[] = [];
  readBody({ client: "a", isReleased: false }, large, names, () => undefined);
  readBody({ client: "b", isReleased: false }, small, names, (reading) => readings.push(reading));
  expect(readings).toMatchObject([{ kind: "object", object: { members: [{ name: "model" }] } }]);
});

test("a large body is read over many turns of the event loop, and several take turns", async () => {
  const ended: string[] = [];
  const read = (name: string): void => {
    readBody({ client: "a", isReleased: false }, large, names, ({ kind }) => ended.push(`${name} ${kind}`));
  };
  read("first");
  expect(await turnsUntil(() => ended.length === 1)).toBeGreaterThanOrEqual(16);
  read("second");
  await turn();
  read("third");
  expect(await turnsUntil(() => ended.length === 3)).toBeGreaterThanOrEqual(31);
  expect(ended).toEqual(["first object", "second object", "third object"]);
});

test("clients take turns, however many bodies one of them has", async () => {
  const ended: string[] = [];
  const read = (client: string): void =>
    readBody({ client, isReleased: false }, large, names, () => void ended.push(client));
  for (let body = 0; body < 20; body++) read("many");
  read("one");
  await turnsUntil(() => ended.length === 1);
  expect(ended).toEqual(["one"]);
  await turnsUntil(() => ended.length === 21);
});

test("a turn of the event loop reads no more of many small bodies than of a large one", async () => {
  const half = Buffer.from(`{"x":"${"y".repeat(63 * 1024)}"}`);
  // The turn of the last test may have no room.
  for (let turns = 0; turns < 3; turns++) await turn();
  let read = 0;
  const count = 20;
  for (let body = 0; body < count; body++) {
    readBody({ client: "a", isReleased: false }, half, names, () => read++);
  }
  expect(read).toBe(2);
  await turn();
  expect(read).toBeLessThanOrEqual(5);
  expect(await turnsUntil(() => read === count)).toBeGreaterThanOrEqual(count / 3 - 2);
});

test("reading stops when the request has ended", async () => {
  const ended: string[] = [];
  const body = { client: "a", isReleased: false };
  readBody(body, large, names, () => ended.push("left"));
  readBody({ client: "a", isReleased: false }, large, names, () => ended.push("stayed"));
  body.isReleased = true;
  await turnsUntil(() => ended.length > 0);
  expect(ended).toEqual(["stayed"]);
});

test("a turn of the event loop reads some tens of bodies, however small they are", async () => {
  // The turn of the last test may have no room.
  for (let turns = 0; turns < 3; turns++) await turn();
  let read = 0;
  const count = 200;
  for (let body = 0; body < count; body++) readBody({ client: "a", isReleased: false }, small, names, () => read++);
  expect(read).toBe(32);
  expect(await turnsUntil(() => read === count)).toBeGreaterThanOrEqual(5);
});
