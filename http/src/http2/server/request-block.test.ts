import { expect, test } from "vitest";
import { readTrailerBlock } from "./request-block.ts";

test.each(["content-length", "host", "connection", "transfer-encoding", "te", ":path", "X-Upper", "a b", ""])(
  "trailers with the field %j are malformed (RFC 9110 §6.5.1, RFC 9113 §8.1, §8.2)",
  (name) => {
    expect(readTrailerBlock(["x-sum", "1", name, "1"])).toEqual({ kind: "malformed" });
  },
);

test("trailers have their fields, up to the bound", () => {
  const fields = ["x-sum", "1", "x-note", "2"];
  expect(readTrailerBlock(fields, 2)).toEqual({ kind: "trailers", fields });
  expect(readTrailerBlock(fields, 1)).toEqual({ kind: "tooLarge" });
});
