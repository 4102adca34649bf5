import { expect, test } from "vitest";
import { CounterCommand, type WaitingCall } from "./counter-command.ts";

/** Calls with `places` steps each, and what became of them. */
function waiting(places: number) {
  const outcome: { values?: readonly number[]; error?: Error } = {};
  const call: WaitingCall = {
    values: new Array<number>(places),
    missing: places,
    resolve: (values) => {
      outcome.values = values;
    },
    reject: (error) => {
      outcome.error = error;
    },
  };
  return { call, outcome };
}

test("adds up the steps of several calls, and gives each its own value", () => {
  const [a, b] = [waiting(2), waiting(1)];
  const command = new CounterCommand("k", 60);
  command.add(1, a.call, 0);
  command.add(2, b.call, 0);
  command.add(0, a.call, 1);
  expect(command.words()).toEqual(["INCRBY", "k", "3"]);
  command.settle(13);
  expect(a.outcome.values).toEqual([11, 13]);
  expect(b.outcome.values).toEqual([13]);
});

test("takes no step that would make a sum beyond what one command adds, nor any beside a script", () => {
  const { call } = waiting(3);
  const command = new CounterCommand("k", 60);
  command.add(4_294_967_290, call, 0);
  expect([0, 5, 6, -1].map((hits) => command.accepts(hits))).toEqual([true, true, false, false]);
  for (const hits of [4_294_967_296, -1]) {
    const script = new CounterCommand("k", 60);
    script.add(hits, call, 1);
    expect(script.words()[0]).toBe("EVAL");
    expect([0, 1, -1].map((further) => script.accepts(further))).toEqual([false, false, false]);
  }
});

test("only reads where nothing is added", () => {
  const { call, outcome } = waiting(1);
  const command = new CounterCommand("k", 60);
  command.add(0, call, 0);
  expect(command.words()).toEqual(["GET", "k"]);
  command.settle(7);
  expect(outcome.values).toEqual([7]);
});

test("gives back by a script, whose reply is the value", () => {
  const { call, outcome } = waiting(1);
  const command = new CounterCommand("k", 60);
  command.add(-4, call, 0);
  const [word, , keys, key, hits] = command.words();
  expect([word, keys, key, hits]).toEqual(["EVAL", "1", "k", "-4"]);
  command.settle(0);
  expect(outcome.values).toEqual([0]);
});

test("a reply that comes after the refusal changes nothing", () => {
  const { call, outcome } = waiting(2);
  const command = new CounterCommand("k", 60);
  command.add(1, call, 0);
  command.fail(new Error("too late"));
  expect(command.isSettled).toBe(true);
  command.settle(1);
  expect(outcome).toEqual({ error: new Error("too late") });
});
