/** `proxyctl config policies`: one row per target of a policy. */
import type { DumpedPolicy } from "@gatewayproxy/admin-api/config-dump";
import type { Column } from "../output/table.ts";
import { none } from "./backends.ts";
import { describeConditions, messagesOf } from "./condition-words.ts";
import { describePolicy } from "./limit-words.ts";

/** A policy and one of its targets. */
export interface PolicyRow {
  readonly policy: DumpedPolicy;
  readonly target: DumpedPolicy["targets"][number] | undefined;
}

/** Returns rows in the order of the dump. */
export function policyRows(policies: readonly DumpedPolicy[]): readonly PolicyRow[] {
  return policies.flatMap((policy): PolicyRow[] => {
    if (policy.targets.length === 0) return [{ policy, target: undefined }];
    return policy.targets.map((target) => ({ policy, target }));
  });
}

/** The columns of `proxyctl config policies`. */
export const policyColumns: readonly Column<PolicyRow>[] = [
  { head: "NAME", whenNarrow: "wrap", cell: ({ policy }) => policy.name },
  { head: "NAMESPACE", whenNarrow: "wrap", cell: ({ policy }) => policy.namespace },
  { head: "TARGET", whenNarrow: "wrap", cell: ({ target }) => target?.target ?? none },
  { head: "ATTACHED", cell: ({ target }) => (target?.isAttached === true ? "True" : "False") },
  { head: "STATUS", whenNarrow: "wrap", cell: ({ target }) => describeConditions(target?.conditions ?? [], "Valid") },
  { head: "LIMITS", whenNarrow: "below", cell: ({ policy }) => describePolicy(policy).join("; ") || none },
  { head: "MESSAGE", isWide: true, cell: ({ target }) => messagesOf(target?.conditions ?? []).join("; ") || none },
];

/** Returns the messages of unmet conditions at the target. */
export function policyNotes({ target }: PolicyRow): readonly string[] {
  return messagesOf(target?.conditions ?? []);
}
