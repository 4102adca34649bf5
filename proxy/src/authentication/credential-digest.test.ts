import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { digestOnce } from "./credential-digest.ts";

test("the digest belongs to the text, whatever was asked for before", () => {
  const digest = digestOnce();
  for (const text of ["a", "a", "b", "a", ""]) expect(digest(text)).toBe(hash("sha256", text, "base64"));
});
