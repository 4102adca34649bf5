import { describe, expect, test } from "vitest";
import { gatewayLabelValue } from "./gateway-label.ts";

describe("gatewayLabelValue()", () => {
  test("leaves a name as it is that a label takes", () => {
    expect(gatewayLabelValue("web.example.com")).toBe("web.example.com");
    expect(gatewayLabelValue("a".repeat(63))).toBe("a".repeat(63));
  });

  test("shortens a longer one to a valid label, which is unique", () => {
    const name = `${"a".repeat(53)}.${"b".repeat(100)}`;
    expect(gatewayLabelValue(name)).toMatch(/^a{53}-[0-9a-f]{8}$/);
    expect(gatewayLabelValue(name)).not.toBe(gatewayLabelValue(`${name}b`));
  });
});
