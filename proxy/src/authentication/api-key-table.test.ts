import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { ApiKeyTable } from "./api-key-table.ts";

test("finds a key by its hash, with what is known of its Secret", () => {
  const keyOf = (name: string, key: string) => ({
    sha256: { secret: hash("sha256", key, "base64") },
    source: { namespace: "default", name },
    attributes: { tier: "gold" },
  });
  const table = new ApiKeyTable([keyOf("acme", "first"), keyOf("other", "first"), keyOf("acme", "second")]);
  expect(table.find("first")).toMatchObject({ source: "default/acme" });
  expect(table.find("second")?.attributes.get("tier")).toBe("gold");
  for (const unknown of ["", "firs", "first ", hash("sha256", "first", "base64"), "x".repeat(2_000)]) {
    expect(table.find(unknown)).toBeUndefined();
  }
});
