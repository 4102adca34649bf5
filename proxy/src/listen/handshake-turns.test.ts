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

test("eight of those with a costly part later are in progress, and each that ends makes room for one", async () => {
  const { turns, begun, startMany } = start(0);
  const [first] = startMany("a", 20, true);
  await turn();
  expect(begun).toHaveLength(8);
  startMany("b", 1);
  expect(begun.at(-1)).toBe("b");
  if (first !== undefined) turns.end(first);
  expect(begun).toHaveLength(10);
});

test("the client with the most of them makes room after a second, its oldest one first, while others wait", () => {
  const { clock, begun, closed, startMany } = start(0);
  startMany("b", 1, true);
  startMany("a", 7, true);
  clock.advance(5_000);
  expect(closed).toEqual([]);
  startMany("c", 1, true);
  clock.advance(0);
  expect(closed).toEqual(["a"]);
  expect(begun.at(-1)).toBe("c");
});
