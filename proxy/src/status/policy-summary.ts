/** A ProxyPolicy in a few words, as `kubectl get ppol` shows it. Pure. */
import type { ProxyPolicy } from "../api/proxy-policy.ts";
import type { PolicyStatus } from "../api/status.ts";

export interface PolicySummary {
  /** `HTTPRoute/chat, Gateway/web` */
  readonly target: string;
  /** `10 requests/Minute, global` */
  readonly limits: string;
  readonly accepted: string;
  /** `True`, `False`, or `1/2` where some targets are not enforced. */
  readonly attached: string;
}

/** What the API takes of a text. */
const longest = 1024;

export function policySummary({ spec }: ProxyPolicy, { ancestors }: PolicyStatus): PolicySummary {
  const { local, global } = spec.traffic.rateLimit;
  const entries = local.map((entry) => {
    const amount = entry.tokens === undefined ? `${entry.requests ?? 0} requests` : `${entry.tokens} tokens`;
    return `${amount}/${entry.unit.replace(/s$/, "")}`;
  });
  const holds = (type: string) =>
    ancestors.filter(({ conditions }) => conditions.some((each) => each.type === type && each.status === "True"))
      .length;
  const attached = holds("Attached");
  const isPartly = attached > 0 && attached < ancestors.length;
  return {
    target: spec.targetRefs
      .map(({ kind, name, sectionName }) => `${kind}/${name}${sectionName === undefined ? "" : `#${sectionName}`}`)
      .join(", ")
      .slice(0, longest),
    limits: [...entries, ...(global === undefined ? [] : ["global"])].join(", ").slice(0, longest),
    accepted: holds("Accepted") > 0 ? "True" : "False",
    attached: isPartly ? `${attached}/${ancestors.length}` : attached > 0 ? "True" : "False",
  };
}
