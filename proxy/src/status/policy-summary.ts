/**
 * A ProxyPolicy in a few words, for the columns of `kubectl get`: a column shows one value, and a policy has several
 * targets, limits and outcomes. Written as `status.summary`.
 */
import type { LocalEntry, ProxyPolicy } from "../api/proxy-policy.ts";
import type { AncestorStatus, PolicyCondition } from "../api/status.ts";

export interface PolicySummary {
  /** `HTTPRoute/chat, Gateway/edge#https` */
  readonly target: string;
  /** `10/min+5, 1000 tokens/min, global chat` */
  readonly limits: string;
  readonly accepted: string;
  readonly attached: string;
}

/** Bound of the CRD. */
const maxLength = 1024;

/** @param ancestors as our own controller judges them. */
export function summarizePolicy({ spec }: ProxyPolicy, ancestors: readonly AncestorStatus[]): PolicySummary {
  const { local, global } = spec.traffic.rateLimit;
  const targets = spec.targetRefs.map(
    ({ kind, name, sectionName }) => `${kind}/${name}${sectionName === undefined ? "" : `#${sectionName}`}`,
  );
  const limits = [...local.map(renderEntry), ...(global === undefined ? [] : [`global ${global.domain}`])];
  return {
    target: cut(targets.join(", ")),
    limits: cut(limits.join(", ")),
    accepted: outcome(ancestors, "Accepted"),
    attached: outcome(ancestors, "Attached"),
  };
}

const units: Readonly<Record<LocalEntry["unit"], string>> = { Seconds: "s", Minutes: "min", Hours: "h" };

function renderEntry({ requests, tokens, unit, burst = 0, mode }: LocalEntry): string {
  const amount = tokens === undefined ? String(requests ?? 0) : `${tokens} tokens`;
  const extra = burst === 0 ? "" : `+${burst}`;
  return `${amount}/${units[unit]}${extra}${mode === "Shadow" ? " (Shadow)" : ""}`;
}

/** `True` and `False` where all targets agree, else at how many it holds. */
function outcome(ancestors: readonly AncestorStatus[], type: PolicyCondition["type"]): string {
  if (ancestors.length === 0) return "Unknown";
  const holding = ancestors.filter(({ conditions }) =>
    conditions.some((condition) => condition.type === type && condition.status === "True"),
  ).length;
  if (holding === ancestors.length) return "True";
  return holding === 0 ? "False" : `${holding} of ${ancestors.length}`;
}

function cut(text: string): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1)}…`;
}
