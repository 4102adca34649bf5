import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { renderMetricTable } from "@gatewayproxy/runtime/exposition";
import { withSection } from "@gatewayproxy/runtime/testing/doc-section";
import { describe, expect, test } from "vitest";
import { metricTable } from "./metric-table.ts";

const page = fileURLToPath(new URL("../../../docs/metrics.md", import.meta.url));

test("docs/metrics.md shows this table, no more and no less (`npx vitest -u` writes it)", async () => {
  await expect(withSection(readFileSync(page, "utf8"), "metrics", renderMetricTable(metricTable))).toMatchFileSnapshot(
    page,
  );
});

test("docs/metrics.md names no metric that does not exist", () => {
  const known = new Set(Object.values(metricTable).map(({ name }) => name));
  const named = readFileSync(page, "utf8").match(/gateway_proxy_\w+/g) ?? [];
  expect(named.filter((name) => !known.has(name.replace(/_(bucket|sum|count)$/, "")))).toEqual([]);
});

describe("every metric", () => {
  const declarations = Object.values(metricTable);

  test.each(declarations)("$name follows the conventions of Prometheus names", ({ name, type }) => {
    expect(name).toMatch(/^gateway_proxy_[a-z_]+[a-z]$/);
    expect(name.endsWith("_total")).toBe(type === "counter");
    if (type === "histogram") expect(name).toMatch(/_seconds$/);
  });

  test.each(declarations)("$name has a sentence of help and buckets in order", ({ help, buckets = [] }) => {
    expect(help).toMatch(/^[A-Z].*\.$/);
    expect([...buckets].sort((a, b) => a - b)).toEqual(buckets);
  });

  test("has a name of its own", () => {
    expect(new Set(declarations.map(({ name }) => name)).size).toBe(declarations.length);
  });
});
