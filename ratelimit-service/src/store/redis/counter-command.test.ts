import { expect, test } from "vitest";
import type { CounterStep } from "../../model/counter-store.ts";
import { CounterCommand, type PendingCall } from "./counter-command.ts";

/** A step on a counter of the minute that begins at `startSeconds`, or of another window. */
function step(hits: number, windowSeconds = 60, startSeconds = 60): CounterStep {
  return { key: "k", hits, windowSeconds, windowEndSeconds: startSeconds + windowSeconds };
}

/** Calls with `places` steps each, and what became of them. */
function waiting(indexes: number) {
  const outcome: { values?: readonly number[]; error?: Error } = {};
  const call: PendingCall = {
    values: new Array<number>(indexes),
    missing: indexes,
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
  const command = new CounterCommand("k");
  command.add(step(1), a.call, 0);
  command.add(step(2), b.call, 0);
  command.add(step(0), a.call, 1);
  expect(command.args()).toEqual(["INCRBY", "k", "3"]);
  command.settle(13);
  expect(a.outcome.values).toEqual([11, 13]);
  expect(b.outcome.values).toEqual([13]);
});

test("takes no step that would make a sum beyond what one command adds, nor any beside a script", () => {
  const { call } = waiting(3);
  const command = new CounterCommand("k");
  command.add(step(4_294_967_290), call, 0);
  expect([0, 5, 6, -1].map((hits) => command.accepts(hits))).toEqual([true, true, false, false]);
  for (const hits of [4_294_967_296, -1]) {
    const script = new CounterCommand("k");
    script.add(step(hits), call, 1);
    expect(script.args()[0]).toBe("EVAL");
    expect([0, 1, -1].map((further) => script.accepts(further))).toEqual([false, false, false]);
  }
});

test("only reads where nothing is added", () => {
  const { call, outcome } = waiting(1);
  const command = new CounterCommand("k");
  command.add(step(0), call, 0);
  expect(command.args()).toEqual(["GET", "k"]);
  command.settle(7);
  expect(outcome.values).toEqual([7]);
});

test("refunds by a script, whose reply is the value", () => {
  const { call, outcome } = waiting(1);
  const command = new CounterCommand("k");
  command.add(step(-4), call, 0);
  const [word, , keys, key, hits] = command.args();
  expect([word, keys, key, hits]).toEqual(["EVAL", "1", "k", "-4"]);
  command.settle(0);
  expect(outcome.values).toEqual([0]);
});

test("a reply that comes after the rejection changes nothing", () => {
  const { call, outcome } = waiting(2);
  const command = new CounterCommand("k");
  command.add(step(1), call, 0);
  command.fail(new Error("too late"));
  expect(command.isSettled).toBe(true);
  command.settle(1);
  expect(outcome).toEqual({ error: new Error("too late") });
});

test("gives the counter the end of the longest window, and keeps a later one only where a longer window begins with it", () => {
  const { call } = waiting(2);
  const day = 86_400;
  const commandOf = (...steps: readonly CounterStep[]) => {
    const command = new CounterCommand("k");
    for (const each of steps) command.add(each, call, 0);
    return command;
  };
  expect(commandOf(step(1)).expireArgs(70)).toEqual(["EXPIRE", "k", "70"]);
  expect(commandOf(step(1, 31_536_000, 31_536_000)).expireArgs(80)).toEqual(["EXPIRE", "k", "80"]);
  for (const [window, start] of [
    [1, 60],
    [60, 3_600],
    [60, day],
    [3_600, day],
    [day, 604_800],
  ] as const) {
    expect(commandOf(step(1, window, start)).expireArgs(70)[0]).toBe("EVAL");
  }
  const both = commandOf(step(1, 1, 7_200), step(1, 3_600, 7_200));
  expect(both.windowSeconds).toBe(3_600);
  expect(both.expireArgs(3_600)).toEqual(["EXPIRE", "k", "3600"]);
});
