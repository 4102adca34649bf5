import { describe, expect, test } from "vitest";
import { outcomeOf } from "./call-outcome.ts";

const nothing = Buffer.alloc(0);

describe("a call that ends with a gRPC status", () => {
  test.each([
    ["1 (CANCELLED)", "failed"],
    ["2 (UNKNOWN)", "unavailable"],
    ["3 (INVALID_ARGUMENT)", "rejected"],
    ["4 (DEADLINE_EXCEEDED)", "timeout"],
    ["5 (NOT_FOUND)", "rejected"],
    ["6 (ALREADY_EXISTS)", "rejected"],
    ["7 (PERMISSION_DENIED)", "rejected"],
    ["8 (RESOURCE_EXHAUSTED)", "exhausted"],
    ["9 (FAILED_PRECONDITION)", "rejected"],
    ["10 (ABORTED)", "failed"],
    ["11 (OUT_OF_RANGE)", "rejected"],
    ["12 (UNIMPLEMENTED)", "rejected"],
    ["13 (INTERNAL)", "failed"],
    ["14 (UNAVAILABLE)", "unavailable"],
    ["15 (DATA_LOSS)", "failed"],
    ["16 (UNAUTHENTICATED)", "rejected"],
    ["17 (not defined)", "failed"],
    ["toString (not a number)", "failed"],
  ])("of %s is %s", (status, cause) => {
    const [code] = status.split(" ");
    expect(outcomeOf(200, code, undefined, nothing)).toMatchObject({ kind: "failed", cause });
  });
});

describe("a call with the response of a proxy", () => {
  test.each([
    [400, "rejected"],
    [408, "timeout"],
    [413, "rejected"],
    [429, "exhausted"],
    [500, "failed"],
    [502, "unavailable"],
    [503, "unavailable"],
    [504, "unavailable"],
    [599, "failed"],
  ])("with HTTP status %i is %s", (status, cause) => {
    expect(outcomeOf(status, undefined, undefined, nothing)).toMatchObject({ kind: "failed", cause });
  });
});
