/** CRDs of a cluster. */
import { setTimeout } from "node:timers/promises";

/** Runs kubectl as an administrator. Resolves with its standard output. */
type Kubectl = (args: readonly string[]) => Promise<string>;

interface Definition {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] | null };
}

/**
 * Applies the CRDs of files or folders. Resolves when the API server serves all CRDs of the cluster. `kubectl wait`
 * fails for a CRD that has no conditions yet, so this reads them.
 */
export async function applyDefinitions(kubectl: Kubectl, paths: readonly string[]): Promise<void> {
  await kubectl(["apply", "--server-side", ...paths.flatMap((path) => ["-f", path])]);
  for (;;) {
    const { items } = JSON.parse(await kubectl(["get", "crd", "--output", "json"])) as { items: readonly Definition[] };
    if (items.every(isEstablished)) return;
    await setTimeout(100);
  }
}

function isEstablished({ status }: Definition): boolean {
  return (
    status?.conditions?.some((condition) => condition.type === "Established" && condition.status === "True") === true
  );
}
