import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { joinSome, listSome } from "./bounded-text.ts";

describe("listSome", () => {
  test.each([
    [[], ""],
    [["a"], "a"],
    [[80, 443], "80, 443"],
    [Array.from({ length: 100 }, (_, at) => `name-${10 + at}`), /^name-10, name-11, .*, name-\d+ and \d+ more$/],
  ])("renders %j as %s", (names, listed) => {
    expect(listSome(names)).toMatch(listed);
  });

  test("contains the first name, however long it is", () => {
    expect(listSome(["x".repeat(253), "y"])).toBe(`${"x".repeat(253)} and 1 more`);
  });

  test("counts the names that it leaves out", () => {
    fc.assert(
      fc.property(fc.array(fc.stringMatching(/^[a-z]{1,60}$/)), (names) => {
        const listed = listSome(names);
        const [, rest = "0"] = / and (\d+) more$/.exec(listed) ?? [];
        const shown = listed.replace(/ and \d+ more$/, "");
        expect(shown === "" ? [] : shown.split(", ")).toEqual(names.slice(0, names.length - Number(rest)));
        expect(listed.length).toBeLessThan(300);
      }),
    );
  });
});

describe("joinSome", () => {
  test("contains equal sentences once", () => {
    expect(joinSome(["a is missing", "b is missing", "a is missing"])).toBe("a is missing; b is missing");
  });

  test("is bounded for any input", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 3_000 })), (sentences) => {
        expect(joinSome(sentences).length).toBeLessThan(4_200);
      }),
    );
    const many = Array.from({ length: 5_000 }, (_, at) => `Service default/missing-${at} does not exist`);
    expect(joinSome(many)).toMatch(/does not exist; and \d{4} more$/);
  });

  test("cuts a long sentence between characters", () => {
    expect(joinSome(["😀".repeat(3_000)])).toMatch(/^(?:😀)+\ufffd?…$/u);
  });
});
