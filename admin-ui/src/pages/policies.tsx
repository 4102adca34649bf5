/** Every ProxyPolicy: its limits, its targets, and whether it is attached to them. */
import type { DumpedPolicy } from "@gatewayproxy/admin-api/config-dump";
import { counted, formatMs } from "../format.ts";
import { Conditions } from "../parts/conditions.tsx";
import { Empty } from "../parts/empty.tsx";
import { describeDescriptorTerms, describeLimit, describeTerms, type LocalEntry } from "../parts/limit-words.ts";
import { describeResponses } from "../parts/response-words.ts";

/** The page of ProxyPolicies. */
export function PoliciesPage({ policies }: { policies: readonly DumpedPolicy[] }) {
  if (policies.length === 0) {
    return (
      <Empty title="There is no ProxyPolicy, so nothing is limited.">
        <p>
          A ProxyPolicy names routes or Gateways in <code>spec.targetRefs</code> and limits their requests or tokens in{" "}
          <code>spec.traffic.rateLimit</code>.
        </p>
      </Empty>
    );
  }
  return (
    <>
      {policies.map((policy) => (
        <section
          key={`${policy.namespace}/${policy.name}`}
          aria-label={`${policy.namespace}/${policy.name}`}
          class="card"
        >
          <h3>
            {policy.namespace}/{policy.name}
          </h3>
          <ul>
            {policy.authentication !== undefined && <Authentication authentication={policy.authentication} />}
            {policy.local.map((entry, index) => (
              <li key={index}>
                <Entry entry={entry} />
              </li>
            ))}
            {policy.global !== undefined && <GlobalLimit limit={policy.global} />}
          </ul>
          {describeResponses(policy).map((sentence) => (
            <p key={sentence}>{sentence}</p>
          ))}
          {policy.targets.length === 0 && <p class="notice warn">It names no target, so it limits nothing.</p>}
          {policy.targets.map(({ target, isAttached, conditions }) => (
            <div key={target} class="target">
              <strong class={isAttached ? "good" : "bad"}>{isAttached ? "Limits" : "Does not limit"}</strong>{" "}
              <code>{target}</code>
              <Conditions conditions={conditions} />
            </div>
          ))}
        </section>
      ))}
    </>
  );
}

function Authentication({ authentication }: { authentication: NonNullable<DumpedPolicy["authentication"]> }) {
  const { mode, jwt = [], apiKeys } = authentication;
  return (
    <li>
      <strong>Authentication {mode === "Required" ? "is required" : "is optional"}</strong>
      {jwt.map(({ issuer, keys: { count, lastError } }) => (
        <div key={issuer}>
          tokens of <code>{issuer}</code>, verified by {counted(count, "public key")}
          {lastError !== undefined && <span class="note">, last error {lastError.message}</span>}
        </div>
      ))}
      {apiKeys !== undefined && (
        <div>
          {counted(apiKeys.count, "API key")} in {counted(apiKeys.secrets.length, "Secret")}
        </div>
      )}
    </li>
  );
}

function Entry({ entry }: { entry: LocalEntry }) {
  return (
    <>
      {entry.name !== undefined && `${entry.name}: `}
      <strong>{describeLimit(entry)}</strong>
      {entry.key !== undefined && (
        <>
          , for each <code>{entry.key}</code>,
        </>
      )}
      {describeTerms({ ...entry, replicas: entry.shareAcrossReplicas ? true : undefined }).map((term) => ` ${term},`)}
      {!entry.shareAcrossReplicas && " in this replica"}
      {entry.mode === "Shadow" && " (shadow mode: denies nothing)"}
    </>
  );
}

function GlobalLimit({ limit }: { limit: NonNullable<DumpedPolicy["global"]> }) {
  return (
    <li>
      In all replicas together, counted by <code>{limit.service}</code> in the domain <code>{limit.domain}</code>, which
      has {formatMs(limit.timeoutMs)} to respond{limit.mode === "Shadow" && " (shadow mode: denies nothing)"}:
      <ul>
        {limit.descriptors.map((descriptor) => (
          <li key={descriptor.index}>
            {descriptor.counts} for each{" "}
            {descriptor.entries.map(({ key, expression }, at) => (
              <span key={key}>
                {at > 0 && " and "}
                <code title={expression}>{key}</code>
              </span>
            ))}
            {describeDescriptorTerms(descriptor).map((term) => `, ${term}`)}
          </li>
        ))}
        <li>
          While the service is away: {failureModes[limit.failureMode]}
          {limit.failureMode === "Local" && limit.fallback.length > 0 && (
            <ul>
              {limit.fallback.map((entry, index) => (
                <li key={index}>
                  <Entry entry={entry} />
                </li>
              ))}
            </ul>
          )}
        </li>
      </ul>
    </li>
  );
}

const failureModes: Readonly<Record<NonNullable<DumpedPolicy["global"]>["failureMode"], string>> = {
  Local: "limits of this replica decide: those of the fallback, and those that the service has reported",
  Open: "requests are allowed without a limit",
  Closed: "requests get a 503 response",
};
