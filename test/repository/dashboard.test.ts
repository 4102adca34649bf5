/** The dashboard of the chart requests metrics and labels that exist. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { metricTable } from "../../proxy/src/telemetry/metric-table.ts";

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
}

const path = join(import.meta.dirname, "../../deploy/helm/gateway-proxy/files/dashboard.json");
const { panels } = JSON.parse(readFileSync(path, "utf8")) as { readonly panels: readonly Panel[] };
const metrics = new Map(Object.values(metricTable).map(({ name, labels }) => [name, labels]));
/** Prometheus adds these to every series of a pod. */
const ofTarget = ["namespace", "pod", "le"];

test.each(
  panels.flatMap(({ title, targets }) => targets.map(({ expr, legendFormat }) => ({ title, expr, legendFormat }))),
)("$title: $expr", ({ expr, legendFormat }) => {
  const names = [...expr.matchAll(/gateway_proxy_[a-z_]+/g)].map(([name]) =>
    name.replace(/_(?:bucket|sum|count)$/, ""),
  );
  const known = names.filter((name) => metrics.has(name));
  expect(names).toEqual(known);
  if (!expr.includes("gateway_proxy_") || /process_/.test(expr)) return;
  const labels = new Set([...ofTarget, ...names.flatMap((name) => metrics.get(name) ?? [])]);
  const grouped = [...expr.matchAll(/\b(?:by|on) \(([^)]*)\)/g)].flatMap(([, list = ""]) => list.split(/, */));
  const selected = [...expr.matchAll(/[{,](\w+)(?:=~|!~|!=|=)"/g)].map(([, label = ""]) => label);
  const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = ""]) => label);
  expect([...grouped, ...selected, ...shown].filter((label) => !labels.has(label))).toEqual([]);
  // What is shown must be left by the sum.
  if (grouped.length > 0) expect(shown.filter((label) => !grouped.includes(label))).toEqual([]);
});

test("panels have ids of their own and do not overlap", () => {
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, at) => `${x + (at % w)} ${y + Math.floor(at / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
});
