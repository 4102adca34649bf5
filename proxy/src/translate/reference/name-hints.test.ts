import { expect, test } from "vitest";
import { NameHints } from "./name-hints.ts";

/** Names of a namespace, and how often they were looked at. */
function namesOf(namespace: string): { names: Iterable<string>; searches: () => number } {
  let searches = 0;
  return {
    names: {
      *[Symbol.iterator]() {
        searches++;
        for (let at = 0; at < 10; at++) yield `${namespace}/service-${at}`;
      },
    },
    searches: () => searches,
  };
}

test("a name that is one edit away is suggested", () => {
  const { names } = namesOf("a");
  expect(new NameHints().of("a", "Service", "a/servce-7", names)).toBe(" (did you mean a/service-7?)");
});

test("a missing name is searched for once", () => {
  const { names, searches } = namesOf("a");
  const hints = new NameHints();
  for (let at = 0; at < 100; at++) hints.of("a", "Service", "a/service-77", names);
  expect(searches()).toBe(1);
});

test("a namespace has 50 searches, and leaves others theirs", () => {
  const a = namesOf("a");
  const b = namesOf("b");
  const hints = new NameHints();
  for (let at = 0; at < 1_000; at++) hints.of("a", "Service", `a/missing-${at}`, a.names);
  expect(a.searches()).toBe(50);
  expect(hints.of("b", "Service", "b/service7", b.names)).toBe(" (did you mean b/service-7?)");
});

test("searches are counted for the namespace that asks, whatever namespaces it names", () => {
  const { names, searches } = namesOf("a");
  const hints = new NameHints();
  for (let at = 0; at < 1_000; at++) hints.of("a", "Gateway", `invented-${at}/service-7`, names);
  expect(searches()).toBe(50);
});
