import { setImmediate as turn } from "node:timers/promises";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import { RequestTurns } from "./request-turns.ts";

/** Requests that take `costMs` each. */
function start(costMs: number) {
  const clock = new FakeClock();
  const turns = new RequestTurns(clock);
  const begun: string[] = [];
  const arrive = (client: string): void => {
    const begin = (): void => {
      begun.push(client);
      clock.advance(costMs);
    };
    if (turns.hasRoom(clock.monotonicMs())) begin();
    else turns.wait(client, begin);
  };
  return { begun, arrive };
}

test("requests begin at once while a turn has room", async () => {
  const { begun, arrive } = start(5);
  for (let request = 0; request < 10; request++) arrive("a");
  expect(begun).toHaveLength(10);
  arrive("a");
  expect(begun).toHaveLength(10);
  await turn();
  expect(begun).toHaveLength(11);
  arrive("a");
  expect(begun).toHaveLength(12);
});

test("each turn begins those of some milliseconds, of the clients in turns", async () => {
  const { begun, arrive } = start(0.5);
  for (let request = 0; request < 110; request++) arrive("a");
  for (let request = 0; request < 2; request++) arrive("b");
  expect(begun.splice(0)).toEqual(Array.from({ length: 100 }, () => "a"));
  await turn();
  expect(begun.splice(0)).toEqual(["a", "b"]);
  arrive("c");
  await turn();
  expect(begun.splice(0)).toEqual(["a", "b"]);
  await turn();
  expect(begun.splice(0)).toEqual(["c", "a"]);
  for (let turns = 0; turns < 4; turns++) await turn();
  expect(begun).toHaveLength(7);
});
