/** Every ProxyPolicy: what it limits, where, and whether it does. */
import type { DumpedPolicy } from "@gatewayproxy/admin-api/config-dump";
import { Conditions } from "../parts/conditions.tsx";

export function PoliciesPage({ policies }: { policies: readonly DumpedPolicy[] }) {
  if (policies.length === 0) return <p>There is no ProxyPolicy, so nothing is limited.</p>;
  return (
    <>
      {policies.map((policy) => (
        <section key={`${policy.namespace}/${policy.name}`} aria-label={`${policy.namespace}/${policy.name}`}>
          <h3>
            {policy.namespace}/{policy.name}
          </h3>
          <ul>
            {policy.local.map((entry, index) => (
              <li key={index}>{describeEntry(entry)}, per replica</li>
            ))}
            {policy.global !== undefined && <GlobalLimit limit={policy.global} />}
          </ul>
          {policy.targets.map(({ target, isAttached, conditions }) => (
            <div key={target} class="target">
              <span class={isAttached ? "good" : "bad"}>{isAttached ? "Limits" : "Does not limit"}</span>{" "}
              <code>{target}</code>
              <Conditions conditions={conditions} />
            </div>
          ))}
        </section>
      ))}
    </>
  );
}

function GlobalLimit({ limit }: { limit: NonNullable<DumpedPolicy["global"]> }) {
  return (
    <li>
      Shared by all replicas, domain <code>{limit.domain}</code>, asked of <code>{limit.service}</code> within{" "}
      {limit.timeoutMs}ms{limit.mode === "Shadow" && ", in shadow mode"}:
      <ul>
        {limit.descriptors.map(({ index, counts, entries }) => (
          <li key={index}>
            {counts} by{" "}
            {entries.map(({ key, expression }) => (
              <code key={key} title={expression}>
                {key}{" "}
              </code>
            ))}
          </li>
        ))}
        {limit.fallback.map((entry, index) => (
          <li key={`fallback ${index}`}>While the service is away: {describeEntry(entry)}</li>
        ))}
      </ul>
    </li>
  );
}

function describeEntry({ counts, amount, burst, unit, key, mode }: DumpedPolicy["local"][number]): string {
  const burstText = burst > 0 ? ` and ${burst} more at once` : "";
  const keyText = key === undefined ? "" : ` for each ${key}`;
  return `${amount} ${counts} per ${unit.toLowerCase().slice(0, -1)}${burstText}${keyText}${mode === "Shadow" ? " (shadow)" : ""}`;
}
