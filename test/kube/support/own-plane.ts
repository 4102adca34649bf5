/** A control plane that the tests of a file have for themselves. Its programs have the permissions of `deploy/rbac`. */
import { join } from "node:path";
import { type ControlPlane, type ControlPlaneOptions, startControlPlane } from "../../rig/control-plane.ts";
import { kubeconfigOf } from "./accounts.ts";
import { type Cluster, clusterOf } from "./cluster.ts";
import { type ControllerProcess, startController } from "./controller-process.ts";
import { defineKinds } from "./global-setup.ts";

/** The namespace of the controller. */
export const system = "gateway-proxy-system";

const rbacFolder = join(import.meta.dirname, "..", "..", "..", "deploy", "rbac");

/** A control plane, and its objects. */
export interface OwnPlane {
  readonly plane: ControlPlane;
  readonly cluster: Cluster;
}

/** @param setting manifests, of the namespace of the controller, too. */
export async function startOwnPlane(setting: string, options: ControlPlaneOptions = {}): Promise<OwnPlane> {
  const plane = await startControlPlane({ controllers: true, ...options });
  try {
    const cluster = clusterOf(plane.kubeconfig);
    await defineKinds(plane.kubeconfig);
    await cluster.apply(setting);
    await plane.kubectl(["apply", "-f", rbacFolder]);
    return { plane, cluster };
  } catch (error) {
    await plane.stop();
    throw error;
  }
}

/** Starts a controller with the rights of its ServiceAccount. @param args further flags. */
export async function startOwnController(plane: ControlPlane, ...args: readonly string[]): Promise<ControllerProcess> {
  const kubeconfig = await kubeconfigOf(plane, system, "gateway-proxy-controller");
  return await startController({ kubeconfig, namespace: system, args: ["--proxy-service-type", "ClusterIP", ...args] });
}
