/** The columns of a ProxyPolicy in `kubectl get ppol`. Pure. */
import type { LocalEntry, ProxyPolicy } from "../api/proxy-policy.ts";
import type { PolicyStatus } from "../api/status.ts";

/** The member `status.summary` of a ProxyPolicy. */
export interface PolicySummary {
  /** `HTTPRoute/chat, Gateway/web` */
  readonly target: string;
  /** `10 requests/Minute + 5 burst, global (shadow)`. Empty if no valid version of the policy is known. */
  readonly limits: string;
  /** The status of the condition `Accepted`: `True` or `False`. */
  readonly accepted: string;
  /** `True`, `False`, or `1/2` if the policy is attached to some of its targets. */
  readonly attached: string;
}

/** The maximum length of a text in the CRD, in characters. */
const maxLength = 1024;

/**
 * Summarizes a policy.
 *
 * @param policy undefined if the parser rejects it and no previous version is known.
 */
export function policySummary(policy: ProxyPolicy | undefined, { ancestors }: PolicyStatus): PolicySummary {
  const countTrue = (type: string) =>
    ancestors.filter(({ conditions }) => conditions.some((each) => each.type === type && each.status === "True"))
      .length;
  const attached = countTrue("Attached");
  const isPartly = attached > 0 && attached < ancestors.length;
  return {
    target: ancestors
      .map(({ ancestorRef: { kind, name, sectionName } }) =>
        sectionName === undefined ? `${kind}/${name}` : `${kind}/${name}#${sectionName}`,
      )
      .join(", ")
      .slice(0, maxLength),
    limits: policy === undefined ? "" : limitsOf(policy).slice(0, maxLength),
    accepted: countTrue("Accepted") > 0 ? "True" : "False",
    attached: isPartly ? `${attached}/${ancestors.length}` : attached > 0 ? "True" : "False",
  };
}

function limitsOf({ spec }: ProxyPolicy): string {
  const { local, global } = spec.traffic.rateLimit;
  const who = spec.traffic.authentication === undefined ? [] : [`authentication (${spec.traffic.authentication.mode})`];
  const entries = local.map((entry) => {
    if (entry.unit === undefined) {
      const amount =
        entry.connections === undefined
          ? amountText(entry.concurrent ?? 0, "concurrent request")
          : amountText(entry.connections, "connection");
      return `${amount}${modeSuffix(entry.mode)}`;
    }
    const amount =
      entry.tokens === undefined ? amountText(entry.requests ?? 0, "request") : amountText(entry.tokens, "token");
    const burst = entry.burst === undefined || entry.burst === 0 ? "" : ` + ${entry.burst} burst`;
    return `${amount}/${windowText(entry.unit, entry)}${burst}${modeSuffix(entry.mode)}`;
  });
  return [...who, ...entries, ...(global === undefined ? [] : [`global${modeSuffix(global.mode)}`])].join(", ");
}

/** `Minute`, `15 Minutes`, `sliding Minute`, `calendar Month`. */
function windowText(unit: string, { every = 1, window = "Fixed" }: LocalEntry): string {
  const units = every === 1 ? unit.replace(/s$/, "") : `${every} ${unit}`;
  return window === "Fixed" ? units : `${window.toLowerCase()} ${units}`;
}

/** `1 request`, `10 requests`. */
function amountText(amount: number, noun: string): string {
  return `${amount} ${noun}${amount === 1 ? "" : "s"}`;
}

/** Marks a limit that counts but denies nothing. */
function modeSuffix(mode: "Enforce" | "Shadow"): string {
  return mode === "Shadow" ? " (shadow)" : "";
}
