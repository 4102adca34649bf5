import { expect, test } from "vitest";
import { LineLimit } from "./line-limit.ts";
import { FakeClock } from "../testing/fake-clock.ts";

test("bounds the lines of a second, and passes the number of omitted ones to the next line", () => {
  const clock = new FakeClock();
  const limit = new LineLimit(clock, 2);
  const lines: number[] = [];
  const tell = (): void => limit.log((omitted) => lines.push(omitted));
  for (let i = 0; i < 5; i++) tell();
  expect(lines).toEqual([0, 0]);
  clock.advance(999);
  tell();
  expect(lines).toEqual([0, 0]);
  clock.advance(1);
  for (let i = 0; i < 3; i++) tell();
  expect(lines).toEqual([0, 0, 4, 0]);
});
