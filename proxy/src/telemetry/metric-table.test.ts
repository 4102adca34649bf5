import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { renderMetricTable } from "@gatewayproxy/runtime/exposition";
import type { MetricDeclaration, MetricTable } from "@gatewayproxy/runtime/metrics";
import { withSection } from "@gatewayproxy/runtime/testing/doc-section";
import { describe, expect, test } from "vitest";
import { genAiMetrics, latestGenAiMetrics } from "./gen-ai-table.ts";
import { metricTableOf, ownMetrics } from "./metric-table.ts";

const page = fileURLToPath(new URL("../../../docs/metrics.md", import.meta.url));
const tables = { metrics: ownMetrics, "gen-ai metrics": genAiMetrics, "latest gen-ai metrics": latestGenAiMetrics };

test("docs/metrics.md shows these tables, no more and no less (`npx vitest -u` writes them)", async () => {
  const written = Object.entries(tables).reduce(
    (text, [section, table]) => withSection(text, section, renderMetricTable(table)),
    readFileSync(page, "utf8"),
  );
  await expect(written).toMatchFileSnapshot(page);
});

test("docs/metrics.md names no metric that does not exist", () => {
  const declared = Object.values<MetricTable>(tables).flatMap((table) => Object.values(table));
  const known = new Set(declared.map(({ name }) => name));
  const named = readFileSync(page, "utf8").match(/\bgateway_proxy_\w+/g) ?? [];
  expect(named.filter((name) => !known.has(name.replace(/_(bucket|sum|count)$/, "")))).toEqual([]);
});

describe("every metric of the proxy", () => {
  const declarations: readonly MetricDeclaration[] = Object.values(ownMetrics);

  test.each(declarations)("$name follows the conventions of Prometheus names", ({ name, type }) => {
    expect(name).toMatch(/^gateway_proxy_[a-z_]+[a-z]$/);
    expect(name.endsWith("_total")).toBe(type === "counter");
    if (type === "histogram") expect(name).toMatch(/_seconds$/);
  });
});

describe("every metric of the semantic conventions", () => {
  const declarations: readonly MetricDeclaration[] = [genAiMetrics, latestGenAiMetrics].flatMap((table) =>
    Object.values<MetricDeclaration>(table),
  );

  test.each(declarations)("$name is the name that Prometheus exporters of OpenTelemetry write", (declaration) => {
    const { name, type, labels, instrument } = declaration;
    const suffixes = [instrument?.unit === "s" ? "_seconds" : "", type === "counter" ? "_total" : ""].join("");
    expect(name).toBe(`${instrument?.name.replaceAll(".", "_")}${suffixes}`);
    for (const label of labels) expect(instrument?.attributes[label]?.replaceAll(".", "_")).toBe(label);
  });
});

describe.each([false, true])("every metric, with the latest conventions: %s", (isLatest) => {
  const declarations: readonly MetricDeclaration[] = Object.values(metricTableOf(isLatest));

  test.each(declarations)("$name has a sentence of help and buckets in order", ({ help, buckets = [] }) => {
    expect(help).toMatch(/^[A-Z].*\.$/);
    expect([...buckets].sort((a, b) => a - b)).toEqual(buckets);
  });

  test("has a name of its own", () => {
    expect(new Set(declarations.map(({ name }) => name)).size).toBe(declarations.length);
  });
});
