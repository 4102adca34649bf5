import { setImmediate as turn } from "node:timers/promises";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import { HandshakeTurns, type WaitingHandshake } from "./handshake-turns.ts";

/** Handshakes whose operation takes `costMs` of the clock, and the clients of those that have begun and were closed. */
function start(costMs: number) {
  const clock = new FakeClock();
  const turns = new HandshakeTurns(clock);
  const [begun, closed]: [string[], string[]] = [[], []];
  const of = (client: string, isCostlyLater = false): WaitingHandshake => {
    const begin = (): void => {
      begun.push(client);
      turns.measure(() => clock.advance(costMs));
    };
    return { client, isCostlyLater, begin, close: () => void closed.push(client) };
  };
  const startMany = (client: string, count: number, isCostlyLater?: boolean): readonly WaitingHandshake[] => {
    const handshakes = Array.from({ length: count }, () => of(client, isCostlyLater));
    for (const each of handshakes) turns.start(each);
    return handshakes;
  };
  return { clock, turns, begun, closed, of, startMany };
}

test("ten begin in a turn, and fewer after a turn in which they took long", async () => {
  const { begun, startMany } = start(4);
  startMany("a", 30);
  expect(begun).toHaveLength(10);
  await turn();
  expect(begun).toHaveLength(12);
  await turn();
  expect(begun).toHaveLength(14);
});

test("one begins in each turn however long they take", async () => {
  const { begun, startMany } = start(50);
  startMany("a", 30);
  await turn();
  expect(begun).toHaveLength(11);
  await turn();
  expect(begun).toHaveLength(12);
});

test("a client with one does not wait for those of another client", async () => {
  const { begun, startMany } = start(1);
  startMany("a", 100);
  startMany("b", 1);
  await turn();
  expect(begun.indexOf("b")).toBeLessThan(12);
});

test("those that have ended do not begin", async () => {
  const { turns, begun, startMany } = start(1);
  for (const each of startMany("a", 30)) turns.end(each);
  await turn();
  expect(begun).toHaveLength(10);
});

test("eight of those of a client with a costly part later are in progress, and each that ends makes room", async () => {
  const { turns, begun, startMany } = start(0);
  const [first] = startMany("a", 20, true);
  await turn();
  expect(begun).toHaveLength(8);
  startMany("b", 1);
  startMany("c", 1, true);
  await turn();
  expect(begun.slice(8)).toEqual(["b", "c"]);
  if (first !== undefined) turns.end(first);
  expect(begun).toHaveLength(11);
});

test("sixty-four of them are in progress", async () => {
  const { begun, startMany } = start(0);
  for (let client = 0; client < 10; client++) startMany(`${client}`, 8, true);
  for (let turns = 0; turns < 10; turns++) await turn();
  expect(begun).toHaveLength(64);
});

test("the client with the most of them makes room after a second, its oldest one first, while others wait", async () => {
  const { clock, begun, closed, startMany } = start(0);
  for (let client = 0; client < 8; client++) startMany(`${client}`, client === 3 ? 8 : 7, true);
  startMany("b", 7, true);
  for (let turns = 0; turns < 10; turns++) await turn();
  clock.advance(5_000);
  expect(closed).toEqual([]);
  startMany("c", 1, true);
  clock.advance(0);
  expect(closed).toEqual(["3"]);
  expect(begun.at(-1)).toBe("c");
});

test("a client that waits for its own makes room itself, and no other one does", async () => {
  const { clock, begun, closed, startMany } = start(0);
  startMany("b", 8, true);
  await turn();
  startMany("a", 9, true);
  await turn();
  expect(begun).toHaveLength(16);
  clock.advance(1_000);
  expect(closed).toEqual(["a"]);
  expect(begun).toHaveLength(17);
  clock.advance(60_000);
  expect(closed).toEqual(["a"]);
});
