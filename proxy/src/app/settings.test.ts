import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readSettings } from "@gatewayproxy/runtime/settings";
import { renderSettingsTable } from "@gatewayproxy/runtime/settings-text";
import { withSection } from "@gatewayproxy/runtime/testing/doc-section";
import { expect, test } from "vitest";
import { proxySettings, settingConflicts } from "./settings.ts";

const page = fileURLToPath(new URL("../../../docs/settings.md", import.meta.url));

test("docs/settings.md equals this table (`npx vitest -u` writes it)", async () => {
  const table = renderSettingsTable(proxySettings);
  await expect(withSection(readFileSync(page, "utf8"), "settings", table)).toMatchFileSnapshot(page);
});

test("every default is a value of its own kind", () => {
  expect(readSettings(proxySettings, { argv: ["--config-dir", "conf"], env: {} })).toMatchObject({ ok: true });
});

test("no two settings share a flag or an environment variable", () => {
  const all = Object.values(proxySettings);
  expect(new Set(all.map(({ flag }) => flag)).size).toBe(all.length);
  expect(new Set(all.map(({ env }) => env)).size).toBe(all.length);
});

test("all conflicts between settings are reported at once", () => {
  const argv = ["--gateway", "default/web", "--admin-address", "0.0.0.0:15000"];
  const read = readSettings(proxySettings, { argv, env: {} });
  if (!read.ok) throw new Error(JSON.stringify(read));
  expect(settingConflicts(read.value).map(({ path }) => path)).toEqual([
    "--config-dir",
    "--admin-address",
    "--gateway",
  ]);
});
