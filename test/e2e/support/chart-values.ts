/** Changes values of the installed chart for the time of a test. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { helm, release, systemNamespace } from "./cluster.ts";

const chart = join(import.meta.dirname, "../../../deploy/helm/gateway-proxy");
const inSystem = ["--namespace", systemNamespace, "--wait", "--timeout", "180s"] as const;

/** Upgrades the release with its own values and these arguments of helm. Its disposal restores the values. */
export async function changeChartValues(args: readonly string[]): Promise<AsyncDisposable> {
  const folder = mkdtempSync(join(tmpdir(), "chart-values-"));
  const values = join(folder, "values.yaml");
  writeFileSync(values, await helm(["get", "values", release, "--namespace", systemNamespace, "--output", "yaml"]));
  const upgrade = ["upgrade", release, chart, ...inSystem, "--reset-values", "--values", values] as const;
  await helm([...upgrade, ...args]);
  return {
    async [Symbol.asyncDispose]() {
      await helm(upgrade);
      rmSync(folder, { recursive: true });
    },
  };
}
