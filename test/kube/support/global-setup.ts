/**
 * The cluster that all tests of `npm run test:kube` share: a control plane from the rig with its controllers and the
 * CRDs of the Gateway API and of this project. If KUBECONFIG is set, it names a cluster to use instead; tests leave
 * only the CRDs in it.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { apiPrograms, controllerPrograms, findRigProgram, requireRigProgram, rigHome } from "../../rig/binaries.ts";
import { startControlPlane } from "../../rig/control-plane.ts";
import { applyDefinitions } from "../../rig/definitions.ts";
import { run } from "../../rig/daemon.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** The kubeconfig of an administrator; absent if the rig is not built. */
    readonly kubeconfig?: string;
    /** Programs that are not built. */
    readonly missingPrograms: readonly string[];
  }
}

const repository = join(import.meta.dirname, "..", "..", "..");

/** Starts the cluster and returns the function that stops it. */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const given = process.env["KUBECONFIG"];
  if (given !== undefined && given !== "") {
    await defineKinds(given);
    project.provide("kubeconfig", given);
    project.provide("missingPrograms", []);
    return undefined;
  }
  const missing = [...apiPrograms, ...controllerPrograms].filter((name) => findRigProgram(name) === undefined);
  project.provide("missingPrograms", missing);
  if (missing.length > 0) return undefined;
  const plane = await startControlPlane({ controllers: true });
  await defineKinds(plane.kubeconfig);
  project.provide("kubeconfig", plane.kubeconfig);
  return () => plane.stop();
}

/** Applies the CRDs of the Gateway API and of this project. */
export async function defineKinds(kubeconfig: string): Promise<void> {
  const kubectl = (args: readonly string[]) => run(requireRigProgram("kubectl"), ["--kubeconfig", kubeconfig, ...args]);
  const folders = [join(rigHome(), "gateway-api-crds"), join(repository, "deploy", "crds")];
  const files = folders.flatMap((folder) =>
    (existsSync(folder) ? readdirSync(folder) : [])
      .filter((name) => name.endsWith(".yaml") && name !== "kustomization.yaml")
      .map((name) => join(folder, name)),
  );
  await applyDefinitions(kubectl, files);
}
