/** The status of Backends: whether they are valid. It does not depend on whether they respond. */
import type { BackendStatus } from "../../api/status.ts";
import type { BackendState } from "../backend/backend-resource.ts";
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

// Other errors are missing or malformed Secrets, since the parser rejects everything else.
export function secretFindings(messages: readonly string[]): readonly Finding<"InvalidSecretRef">[] {
  return messages.map((message) => ({ reason: "InvalidSecretRef", message, path: ["spec"] }));
}
