// Run by describe-with.test.ts only.
import { describe, expect, test } from "vitest";
import { describeWith } from "../describe-with.ts";

describeWith(["grpcurl"], "a suite that needs a program", (paths) => {
  test("would run it", () => expect(paths.grpcurl).not.toBe(""));
  describe("and one below it", () => {
    test("would run it too", () => expect(paths.grpcurl).not.toBe(""));
  });
});

test("a test that needs none runs", () => expect(1 + 1).toBe(2));
