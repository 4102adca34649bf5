import { describe, expect, test } from "vitest";
import { benchCases } from "./cases.ts";
import type { Sample } from "./measure.ts";
import { renderTable, replaceSection } from "./report.ts";

function sample(cpuUs: number): Sample {
  return {
    userUsPerRequest: cpuUs / 2,
    systemUsPerRequest: cpuUs / 2,
    requestsPerSecond: 20_000,
    p50Ms: 1,
    p99Ms: 2,
    p999Ms: 3,
    residentBytes: 64 * 1024 * 1024,
  };
}

test("ratios pair the samples of one round, so that a busy round does not count against one peer", () => {
  const [benchCase] = benchCases;
  if (benchCase === undefined) throw new Error("there are no cases");
  const samples = new Map([
    ["Envoy", [sample(40), sample(80), sample(40)]],
    ["ours", [sample(44), sample(88), sample(36)]],
  ]);
  const [, , first, second] = renderTable([{ benchCase, samples }], "Envoy").split("\n");
  expect(first).toBe(
    "| plain HTTP/1.1 | 64 | Envoy | 40.0 | 40.0–80.0 | 20.0 + 20.0 | 1 | 1.00 | 2.00 | 3.00 | 20000 | 64 |",
  );
  expect(second).toBe(
    "| plain HTTP/1.1 | 64 | ours | 44.0 | 36.0–88.0 | 22.0 + 22.0 | **1.10** (0.90–1.10) | 1.00 | 2.00 | 3.00 | 20000 | 64 |",
  );
});

describe("a section of the page", () => {
  test("is appended when the page has none", () => {
    expect(replaceSection("# Benchmarks\n", "proxy", "table\n")).toBe(
      "# Benchmarks\n\n<!-- proxy -->\ntable\n<!-- /proxy -->\n",
    );
  });

  test("is replaced in its place, and others are not changed", () => {
    const page = "# B\n\n<!-- proxy -->\nold\n<!-- /proxy -->\n\n<!-- other -->\nkept\n<!-- /other -->\n";
    expect(replaceSection(page, "proxy", "new")).toBe(page.replace("old", "new"));
  });
});
