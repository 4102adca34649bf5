/** Kubeconfig files for ServiceAccounts, and their requests in an audit log. */
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { ControlPlane } from "../../rig/control-plane.ts";

/** Writes a kubeconfig with which a process authenticates as the ServiceAccount; returns the path of the file. */
export async function kubeconfigOf(plane: ControlPlane, namespace: string, account: string): Promise<string> {
  const token = await plane.kubectl(["create", "token", account, "-n", namespace]);
  const path = join(dirname(plane.kubeconfig), `${namespace}-${account}.kubeconfig`);
  const admin = readFileSync(plane.kubeconfig, "utf8");
  writeFileSync(path, admin.replace("token: admin", `token: ${token.trim()}`), { mode: 0o600 });
  return path;
}

/** A permission of an RBAC rule, or of a request: `patch gateway.networking.k8s.io/gateways/status`. */
export type Permission = string;

/** The requests of a ServiceAccount, and the forbidden ones among them. */
export function usedPermissions(
  plane: ControlPlane,
  namespace: string,
  account: string,
): { readonly used: ReadonlySet<Permission>; readonly forbidden: ReadonlySet<Permission> } {
  const user = `system:serviceaccount:${namespace}:${account}`;
  const used = new Set<Permission>();
  const forbidden = new Set<Permission>();
  for (const line of readFileSync(plane.auditLog, "utf8").split("\n")) {
    if (line === "") continue;
    // The API server wrote it.
    const event = JSON.parse(line) as AuditEvent;
    if (event.user.username !== user || event.objectRef === undefined) continue;
    const permission = permissionOf(event.verb, event.objectRef);
    (event.responseStatus?.code === 403 ? forbidden : used).add(permission);
  }
  return { used, forbidden };
}

interface AuditEvent {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: ObjectRef;
  readonly responseStatus?: { readonly code?: number };
}

interface ObjectRef {
  readonly apiGroup?: string;
  readonly resource: string;
  readonly subresource?: string;
}

function permissionOf(verb: string, { apiGroup = "", resource, subresource }: ObjectRef): Permission {
  return `${verb} ${apiGroup}/${resource}${subresource === undefined ? "" : `/${subresource}`}`;
}

export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** All permissions of the rules. */
export function permissionsOf(rules: readonly Rule[]): ReadonlySet<Permission> {
  return new Set(
    rules.flatMap(({ apiGroups, resources, verbs }) =>
      apiGroups.flatMap((group) =>
        resources.flatMap((resource) => verbs.map((verb) => `${verb} ${group}/${resource}`)),
      ),
    ),
  );
}
