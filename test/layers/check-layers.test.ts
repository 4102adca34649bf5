import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkLayers, findUnread } from "../../scripts/check-layers.ts";

test("reports every kind of violation, and nothing that the tables allow", async () => {
  const { moduleCount, violations } = await checkLayers(join(import.meta.dirname, "violations"));
  expect(moduleCount).toBe(11);
  expect(violations.map((violation) => violation.replace(/: .*\((.*)\)$/, ": $1"))).toEqual([
    "proxy/src/extras/: proxy-layer-without-row",
    "proxy/src/filters/headers.ts → ../../../node_modules/yaml/dist/index.d.ts: proxy-filters-imports-package",
    "proxy/src/ir/snapshot.ts → proxy/src/pipeline/listener.ts → proxy/src/ir/snapshot.ts: no-circular",
    "proxy/src/ir/snapshot.ts → proxy/src/pipeline/listener.ts: proxy-ir-imports-layer",
    "proxy/src/pipeline/dispatch.ts → ../../../node_modules/undici/index.js: proxy-pipeline-imports-package",
    "proxy/src/pipeline/dispatch.ts → ../../../node_modules/undici/index.js: undici-stays-home",
    "proxy/src/pipeline/dispatch.ts → ./gone.ts: no-unresolvable",
    "proxy/src/pipeline/dispatch.ts → proxy/src/testing/fake-clock.ts: no-test-code",
    "proxy/src/pipeline/dispatch.ts → proxy/src/testing/fake-clock.ts: proxy-pipeline-imports-layer",
    "proxy/src/pipeline/exchange.ts → proxy/src/pipeline/listener.ts → proxy/src/pipeline/exchange.ts: no-circular",
    "proxy/src/routing/table.ts → fs: proxy-routing-imports-node",
    "proxy/src/upstream/pool.ts → ../../../node_modules/undici/index.js: undici-stays-home",
    "proxy/src/upstream/pool.ts → ../../../node_modules/undici/index.js: proxy-upstream-imports-package",
    "runtime/src/clock.ts → proxy/src/upstream/pool.ts: runtime-imports-workspace",
  ]);
});

test("names the importer, the import and the allowed layers", async () => {
  const { violations } = await checkLayers(join(import.meta.dirname, "violations"));
  expect(violations).toContain(
    "proxy/src/routing/table.ts → fs: routing/ is pure and may import nothing of Node (proxy-routing-imports-node)",
  );
});

test("a module that git lists and the check did not read is reported", () => {
  expect(findUnread(["proxy/src/app.ts", "proxy/src/ir/match.ts"], new Set(["proxy/src/app.ts"]))).toEqual([
    "proxy/src/ir/match.ts: listed by git but not read by this check",
  ]);
});

test("ARCHITECTURE.md shows the table of the proxy's layers", async () => {
  const repository = join(import.meta.dirname, "../..");
  const tables = (await import(join(repository, ".dependency-cruiser.mjs"))) as {
    readonly proxyLayers: Readonly<Record<string, readonly string[]>>;
  };
  const page = readFileSync(join(repository, "ARCHITECTURE.md"), "utf8");
  const rows = [...page.matchAll(/^\| `([\w-]+)\/` +\|[^|]*\|([^|]*)\|$/gm)].map(([, layer = "", allowed = ""]) => [
    layer,
    [...allowed.matchAll(/`([\w-]+)`/g)].map(([, name]) => name).sort(),
  ]);
  const expected = Object.entries(tables.proxyLayers).map(([layer, layers]) => [layer, [...layers].sort()]);
  expect(Object.fromEntries(rows.filter(([layer]) => String(layer) in tables.proxyLayers))).toEqual(
    Object.fromEntries(expected),
  );
});
