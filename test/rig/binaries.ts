/**
 * The paths of the rig's programs. A user of envtest has etcd, kube-apiserver and kubectl in KUBEBUILDER_ASSETS;
 * `test/rig/build.sh` builds all of them.
 */
import { accessSync, constants, existsSync, readdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** The programs of a control plane without controllers. */
export const apiPrograms = ["etcd", "kube-apiserver", "kubectl"] as const;

/** The further programs of the real controllers: garbage collection, Deployments, EndpointSlices. */
export const controllerPrograms = ["kube-controller-manager", "kube-scheduler"] as const;

/** The further programs of the conformance suite. */
export const conformancePrograms = ["fakekubelet", "echo-basic", "conformance.test"] as const;

export type RigProgram =
  | (typeof apiPrograms)[number]
  | (typeof controllerPrograms)[number]
  | (typeof conformancePrograms)[number];

/** The command that builds missing programs, for messages. */
export const buildCommand = "test/rig/build.sh";

/** The folder of the rig: `bin` with its programs, and the files of runs. */
export function rigHome(env: NodeJS.ProcessEnv = process.env): string {
  return env["KUBE_RIG_HOME"] ?? join(env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "kube-rig");
}

/** The folder with the CRDs of a channel of the Gateway API, in the version of the conformance suite. */
export function gatewayApiCrds(channel: "standard" | "experimental"): string {
  return join(rigHome(), channel === "standard" ? "gateway-api-crds" : "gateway-api-crds-experimental");
}

/** The folders with the CRDs of each supported minor version of the Gateway API, standard channel, by version. */
export function gatewayApiBundles(): ReadonlyMap<string, string> {
  const bundles = join(rigHome(), "gateway-api-bundles");
  const versions = existsSync(bundles) ? readdirSync(bundles).filter((name) => name.startsWith("v")) : [];
  return new Map(versions.sort().map((version) => [version, join(bundles, version)]));
}

/** The path of a program, or undefined if it is not built. KUBEBUILDER_ASSETS takes precedence. */
export function findRigProgram(name: RigProgram, env: NodeJS.ProcessEnv = process.env): string | undefined {
  const folders = [env["KUBEBUILDER_ASSETS"] ?? "", join(rigHome(env), "bin")].filter((folder) => folder !== "");
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

/** The path of a program; throws an error that names the build script if it is not built. */
export function requireRigProgram(name: RigProgram): string {
  const found = findRigProgram(name);
  if (found === undefined) throw new Error(`${name} is not built; run ${buildCommand}`);
  return found;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
