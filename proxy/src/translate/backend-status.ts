/** Status of Backends: whether one can be called when a route names it. Whether it answers is not asked. */
import type { Backend } from "../api/backend.ts";
import type { Secret } from "../api/secret.ts";
import type { BackendStatus } from "../api/status.ts";
import { resolveBackendResource } from "./backend-resource.ts";
import { conditionFrom, type Finding } from "./finding.ts";
import type { NamedObjects } from "./named-objects.ts";

export function backendStatus(resource: Backend, secrets: NamedObjects<Secret>): BackendStatus {
  const { namespace, name, generation } = resource.metadata;
  const accepted = { type: "Accepted", reason: "Accepted", message: "Backend is accepted" } as const;
  return { namespace, name, conditions: [conditionFrom(accepted, findingsOf(resource, secrets), generation)] };
}

/** What it lacks is a Secret: whatever else could be wrong with it the parser has refused. */
function findingsOf(resource: Backend, secrets: NamedObjects<Secret>): readonly Finding<"InvalidSecretRef">[] {
  const resolution = resolveBackendResource(resource, secrets);
  if (resolution.kind === "resolved") return [];
  return [{ reason: "InvalidSecretRef", message: resolution.message, path: ["spec"] }];
}
