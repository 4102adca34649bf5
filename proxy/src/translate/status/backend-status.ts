/** The status of Backends: whether they are valid. It does not depend on whether they respond. */
import type { BackendStatus } from "../../api/status.ts";
import type { BackendState } from "../backend/backend-resource.ts";
import { conditionFrom } from "./finding.ts";

/** Returns the status of a Backend. */
export function backendStatus({ resource, findings }: BackendState): BackendStatus {
  const { namespace, name, generation } = resource.metadata;
  const accepted = { type: "Accepted", reason: "Accepted", message: "Backend is accepted" } as const;
  return { namespace, name, conditions: [conditionFrom(accepted, findings, generation)] };
}
