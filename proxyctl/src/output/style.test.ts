import { describe, expect, test } from "vitest";
import { ansiStyles, clip } from "./style.ts";

describe("clip", () => {
  test.each([
    { width: 7, shown: "counter" },
    { width: 6, shown: "count…" },
    { width: 1, shown: "…" },
    { width: 0, shown: "" },
  ])("leaves $width columns of a longer text, the last an ellipsis", ({ width, shown }) => {
    expect(clip("counter", width)).toBe(shown);
  });

  test("does not count styles, and ends each that it has begun", () => {
    expect(clip(ansiStyles.bad("counter"), 7)).toBe(ansiStyles.bad("counter"));
    expect(clip(`${ansiStyles.bad("counter")} rest`, 5)).toBe(ansiStyles.bad("coun…"));
  });

  test("does not break a character in two", () => {
    expect(clip("🙂🙂🙂", 2)).toBe("🙂…");
  });
});
