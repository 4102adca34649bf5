import { setImmediate as turn } from "node:timers/promises";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import { RequestTurns, type WaitingConnection } from "./request-turns.ts";

/** A connection whose requests take `costMs` each, and the names of those that have begun. */
class Connection implements WaitingConnection {
  readonly client: string;
  received = 0;
  readonly #name: string;
  readonly #start: Start;

  constructor(start: Start, client: string, name = client) {
    this.client = client;
    this.#name = name;
    this.#start = start;
  }

  receive(count: number): void {
    this.received += count;
    if (this.received === count) this.takeTurn();
  }

  takeTurn(): void {
    const { turns, clock, begun, costMs } = this.#start;
    while (this.received > 0) {
      if (!turns.mayBegin()) {
        turns.wait(this);
        return;
      }
      this.received--;
      begun.push(this.#name);
      clock.advance(costMs);
    }
  }
}

interface Start {
  readonly clock: FakeClock;
  readonly turns: RequestTurns;
  readonly begun: string[];
  readonly costMs: number;
}

function start(costMs: number): Start {
  const clock = new FakeClock();
  return { clock, turns: new RequestTurns(clock), begun: [], costMs };
}

test("requests begin at once for some milliseconds of a turn", async () => {
  const world = start(5);
  const connection = new Connection(world, "a");
  connection.receive(6);
  expect(world.begun).toHaveLength(5);
  await turn();
  expect(world.begun).toHaveLength(6);
  await turn();
  connection.receive(1);
  expect(world.begun).toHaveLength(7);
});

test("later turns begin a few, of the clients in turns, and of the connections of a client", async () => {
  const world = start(1);
  const { begun } = world;
  const [first, second, other] = [
    new Connection(world, "a", "a1"),
    new Connection(world, "a", "a2"),
    new Connection(world, "b"),
  ];
  first.receive(29);
  second.receive(4);
  other.receive(2);
  expect(begun.splice(0)).toEqual(Array.from({ length: 25 }, () => "a1"));
  const turns: string[][] = [];
  for (let at = 0; at < 5; at++) {
    await turn();
    turns.push(begun.splice(0));
  }
  expect(turns).toEqual([
    ["a1", "b"],
    ["a2", "b"],
    // No other client waits, so that a connection begins several.
    ["a1", "a1"],
    ["a2", "a2"],
    ["a1", "a2"],
  ]);
});

test("one that has ended has no turn", async () => {
  const world = start(30);
  const connection = new Connection(world, "a");
  connection.receive(2);
  world.turns.leave(connection);
  await turn();
  expect(world.begun).toHaveLength(1);
  new Connection(world, "b").receive(1);
  expect(world.begun).toEqual(["a", "b"]);
});
