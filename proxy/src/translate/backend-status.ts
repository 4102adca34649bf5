/** Status of Backends: whether one can be called when a route names it. Whether it answers is not asked. */
import type { BackendStatus } from "../api/status.ts";
import type { BackendState } from "./backend-resource.ts";
import { conditionFrom, type Finding } from "./finding.ts";

export function backendStatus({ resource, resolution, malformed, forbidden }: BackendState): BackendStatus {
  const { namespace, name, generation } = resource.metadata;
  const accepted = { type: "Accepted", reason: "Accepted", message: "Backend is accepted" } as const;
  const missing = resolution.kind === "resolved" || forbidden !== undefined ? [] : [resolution.message];
  const findings = [...(forbidden === undefined ? [] : [forbidden]), ...secretFindings([...missing, ...malformed])];
  return {
    namespace,
    name,
    conditions: [conditionFrom(accepted, findings, generation)],
  };
}

/** What else it lacks is a sound Secret: whatever else could be wrong with it the parser has refused. */
export function secretFindings(messages: readonly string[]): readonly Finding<"InvalidSecretRef">[] {
  return messages.map((message) => ({ reason: "InvalidSecretRef", message, path: ["spec"] }));
}
