/** The Grafana dashboards of the chart, against the metrics and labels of the programs. */
import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { MetricFamily } from "@gatewayproxy/runtime/metric-families";
import type { MetricDeclaration } from "@gatewayproxy/runtime/metrics";
import { watchProcess } from "@gatewayproxy/runtime/process-metrics";
import { describe, expect, test } from "vitest";
import { metricTableOf } from "../../proxy/src/telemetry/metric-table.ts";
import { CallTimes, callTimeBounds } from "../../ratelimit-service/src/metrics/call-times.ts";
import { prometheusFamilies } from "../../ratelimit-service/src/metrics/prometheus.ts";
import { takeStats } from "../../ratelimit-service/src/metrics/stats-snapshot.ts";
import { RateLimitStats } from "../../ratelimit-service/src/stats.ts";

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number };
  readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
}

interface Dashboard {
  readonly uid: string;
  readonly panels: readonly Panel[];
}

const folder = join(import.meta.dirname, "../../deploy/helm/gateway-proxy");
const dashboards = globSync(join(folder, "files/dashboard*.json")).map((path) => {
  return { name: basename(path), ...(JSON.parse(readFileSync(path, "utf8")) as Dashboard) };
});
const panels = dashboards.flatMap(({ name, panels: ofDashboard }) =>
  ofDashboard.map((panel) => ({ ...panel, name: `${name}: ${panel.title}` })),
);

function familiesOfService(): readonly MetricFamily[] {
  const stats = new RateLimitStats({ nearLimitRatio: 0.8 });
  stats.ofRule("d.k", "d", ["k"]);
  const options = { extraTags: new Map<string, string>(), timesInMilliseconds: false, callTimeBounds };
  return prometheusFamilies(takeStats(stats, new CallTimes(), 0), 0, options);
}

/** The labels of each metric that does not depend on an opt-in. */
async function labelsByMetric(): Promise<ReadonlyMap<string, readonly string[]>> {
  const isInBoth = ({ name }: MetricDeclaration) =>
    Object.values(metricTableOf(true)).some((declaration) => declaration.name === name);
  const declared = Object.values(metricTableOf(false)).filter(isInBoth);
  const families = [...familiesOfService(), ...(await watchProcess().families())];
  return new Map([
    ...declared.map(({ name, labels }) => [name, labels] as const),
    ...families.map(({ name, points }) => [name, Object.keys(points[0]?.labels ?? {})] as const),
  ]);
}

/** Labels that Prometheus adds to what it scrapes, and that of buckets. */
const addedLabels = ["namespace", "pod", "le"];

/** Each metric of an expression with the labels that it selects by. */
function metricsIn(expression: string): readonly { readonly metric: string; readonly labels: readonly string[] }[] {
  return [...expression.matchAll(/\b([a-z_]+_[a-z_]+)(?:\{([^}]*)\})?/g)].flatMap(([, name = "", selectors = ""]) => {
    const isMetric = /^(gateway_proxy|gen_ai_(server|client)|ratelimit|process|nodejs)_/.test(name);
    const labels = [...selectors.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = ""]) => label);
    return isMetric ? [{ metric: name.replace(/_(bucket|sum|count)$/, ""), labels }] : [];
  });
}

const groupsIn = (expression: string): readonly string[] =>
  [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = ""]) =>
    list.split(",").map((label) => label.trim()),
  );

describe.each(panels)("$name", ({ targets }) => {
  test("shows metrics by labels that exist with each convention", async () => {
    const known = await labelsByMetric();
    for (const { expr, legendFormat } of targets) {
      const used = metricsIn(expr);
      expect(used, expr).not.toEqual([]);
      expect(
        used.filter(({ metric }) => !known.has(metric)),
        expr,
      ).toEqual([]);
      const labels = [...addedLabels, ...used.flatMap(({ metric }) => known.get(metric) ?? [])];
      const groups = groupsIn(expr);
      expect(labels).toEqual(expect.arrayContaining([...groups, ...used.flatMap((metric) => metric.labels)]));
      const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = ""]) => label);
      if (groups.length > 0) expect(groups).toEqual(expect.arrayContaining(shown));
    }
  });
});

test("each dashboard is in the chart, with an id and panels of its own", () => {
  const template = readFileSync(join(folder, "templates/monitoring/dashboard.yaml"), "utf8");
  expect(dashboards.length).toBeGreaterThan(1);
  expect(new Set(dashboards.map(({ uid }) => uid)).size).toBe(dashboards.length);
  for (const { name, panels: ofDashboard } of dashboards) {
    expect(template).toContain(`files/${name}`);
    expect(new Set(ofDashboard.map(({ id }) => id)).size).toBe(ofDashboard.length);
    expect(new Set(ofDashboard.map(({ gridPos: { x, y } }) => `${x} ${y}`)).size).toBe(ofDashboard.length);
  }
});
