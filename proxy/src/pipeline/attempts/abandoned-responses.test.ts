import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import { AbandonedResponses } from "./abandoned-responses.ts";

function start(maxResponses: number) {
  const reads = new AbandonedResponses(new FakeClock(), { timeoutMs: 60_000, maxBytes: 1_000, maxResponses });
  const givenUp: string[] = [];
  const begin = (client: string, name = client) => reads.begin(client, 60_000, () => givenUp.push(name)) !== undefined;
  return { begin, givenUp };
}

test("a client alone has all places", () => {
  const { begin, givenUp } = start(3);
  expect(["a", "a", "a", "a"].map((client) => begin(client))).toEqual([true, true, true, false]);
  expect(givenUp).toEqual([]);
});

test("the client with the most responses gives up its oldest for others, up to an equal share", () => {
  const { begin, givenUp } = start(4);
  for (const name of ["a1", "a2", "a3", "a4"]) expect(begin("a", name)).toBe(true);
  expect([begin("b"), begin("b"), begin("b")]).toEqual([true, true, false]);
  expect(givenUp).toEqual(["a1", "a2"]);
  expect(begin("c")).toBe(true);
  expect(givenUp).toEqual(["a1", "a2", "a3"]);
});

test("without places nothing is read", () => {
  expect(start(0).begin("a")).toBe(false);
});
