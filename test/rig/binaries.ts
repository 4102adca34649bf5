/**
 * Where the rig's programs are. A user of envtest has etcd, kube-apiserver and kubectl in KUBEBUILDER_ASSETS; everything
 * else, and they too, come from `test/rig/build.sh`.
 */
import { accessSync, constants } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** What a control plane without controllers takes. */
export const apiPrograms = ["etcd", "kube-apiserver", "kubectl"] as const;

/** What the real controllers take on top: garbage collection, Deployments, EndpointSlices. */
export const controllerPrograms = ["kube-controller-manager", "kube-scheduler"] as const;

/** What the conformance suite takes on top of all that. */
export const conformancePrograms = ["fakekubelet", "echo-basic", "coredns", "conformance.test"] as const;

export type RigProgram =
  | (typeof apiPrograms)[number]
  | (typeof controllerPrograms)[number]
  | (typeof conformancePrograms)[number];

/** The command that builds what is missing, for messages. */
export const buildCommand = "test/rig/build.sh";

/** The folder of the rig: `bin` with its programs, and what runs write. */
export function rigHome(env: NodeJS.ProcessEnv = process.env): string {
  return env["KUBE_RIG_HOME"] ?? join(env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "kube-rig");
}

/** The folder with the CRDs of a channel of the Gateway API, in the version of the conformance suite. */
export function gatewayApiCrds(channel: "standard" | "experimental"): string {
  return join(rigHome(), channel === "standard" ? "gateway-api-crds" : "gateway-api-crds-experimental");
}

/** The path of a program, or undefined where it is not built. KUBEBUILDER_ASSETS wins. */
export function findRigProgram(name: RigProgram, env: NodeJS.ProcessEnv = process.env): string | undefined {
  const folders = [env["KUBEBUILDER_ASSETS"] ?? "", join(rigHome(env), "bin")].filter((folder) => folder !== "");
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

/** The path of a program; throws an error that names the build script where it is not built. */
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
