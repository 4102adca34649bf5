/** Dumps policies as declared, their targets, and their global limits as enforced. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { redactNamed } from "@gatewayproxy/runtime/redaction";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { DumpedPolicy } from "@gatewayproxy/admin-api/config-dump";
import { amountOf, countsOf, type ProxyPolicy } from "../../api/proxy-policy.ts";
import type { AncestorStatus } from "../../api/status.ts";
import type { GlobalLimit } from "../../ir/global-limit.ts";
import type { LocalLimit } from "../../ir/limit.ts";
import { describeWindow } from "../limit-window.ts";
import { defaultHeaderFamilies } from "../../ir/limit-response.ts";
import { globalLimitsOf } from "../snapshot-limits.ts";
import type { KeySetState } from "../../ir/key-set-state.ts";
import { authenticationByPolicy, dumpAuthentication } from "./authentication.ts";
import type { ConfigurationState } from "./input.ts";

/** @param keySets of all workers. */
export function* dumpPolicies(
  configuration: ConfigurationState,
  keySets: readonly KeySetState[],
): Steps<readonly DumpedPolicy[]> {
  const authentications = authenticationByPolicy(configuration.snapshot);
  const globals = new Map(globalLimitsOf(configuration.snapshot).map((limit) => [limit.policy, limit]));
  const declared = new Map(configuration.resources.ProxyPolicy.map((policy) => [objectKey(policy.metadata), policy]));
  return yield* mapInSteps(configuration.statuses.proxyPolicies, (status) => {
    const key = objectKey(status);
    const global = globals.get(key);
    const policy = declared.get(key);
    const authentication = authentications.get(key);
    return {
      namespace: status.namespace,
      name: status.name,
      targets: status.ancestors.map(dumpTarget),
      ...(authentication !== undefined && { authentication: dumpAuthentication(authentication, keySets) }),
      local: localEntries(policy),
      ...(global !== undefined && { global: dumpGlobal(global) }),
      headers: policy?.spec.traffic.rateLimit.headers ?? defaultHeaderFamilies,
      denied: dumpDenied(policy?.spec.traffic.rateLimit.denied),
    };
  });
}

function dumpDenied(denied: ProxyPolicy["spec"]["traffic"]["rateLimit"]["denied"]): DumpedPolicy["denied"] {
  const { format = "Text", status = 429, body, headers = [] } = denied ?? {};
  return {
    format,
    status,
    ...(body !== undefined && { body }),
    headers: headers.map(({ name, value }) => {
      return { name: name.toLowerCase(), value: redactNamed(name.toLowerCase(), value) };
    }),
  };
}

function dumpTarget({ ancestorRef, conditions }: AncestorStatus): DumpedPolicy["targets"][number] {
  const { kind, namespace, name, sectionName } = ancestorRef;
  return {
    target: `${kind}/${namespace}/${name}${sectionName === undefined ? "" : `#${sectionName}`}`,
    isAttached: conditions.some(({ type, status }) => type === "Attached" && status === "True"),
    conditions,
  };
}

function localEntries(policy: ProxyPolicy | undefined): DumpedPolicy["local"] {
  return (policy?.spec.traffic.rateLimit.local ?? []).map(
    ({ burst = 0, every, limit, window = "Fixed", timeZone = "UTC", ...entry }) =>
      dumpEntry({
        ...entry,
        ...(entry.spend !== undefined && { unpriced: entry.unpriced ?? "Refuse" }),
        counts: countsOf(entry),
        amount: amountOf(entry),
        burst,
        unitCount: every,
        amountFrom: limit,
        windows: { window, ...(window === "Calendar" && { timeZone }) },
      }),
  );
}

function dumpGlobal(limit: GlobalLimit): NonNullable<DumpedPolicy["global"]> {
  const { service, domain, timeoutMs, failureMode, mode, descriptors, fallback } = limit;
  return {
    service,
    domain,
    timeoutMs,
    failureMode,
    mode,
    descriptors,
    fallback: fallback.map((entry) =>
      dumpEntry({
        ...entry,
        ...(entry.reserves === true && { reserve: "Estimate" }),
        ...(entry.counts === "spend" && { unpriced: entry.allowsUnpriced === true ? "Allow" : "Refuse" }),
        windows: describeWindow(entry.window),
      }),
    ),
  };
}

/** The fields of an entry that are dumped, present or undefined. */
type EntryFields = Pick<LocalLimit, "counts" | "amount" | "burst" | "mode"> & {
  readonly unpriced?: "Refuse" | "Allow" | undefined;
  readonly reserve?: "Estimate" | undefined;
} & {
  readonly [Field in "name" | "key" | "when" | "amountFrom" | "cost" | "bucket"]?: string | undefined;
} & {
  readonly unit?: LocalLimit["unit"] | undefined;
  readonly unitCount?: number | undefined;
  readonly shareAcrossReplicas?: boolean;
  readonly windows: ReturnType<typeof describeWindow>;
  readonly replicas?: number | undefined;
};

function dumpEntry(limit: EntryFields): DumpedPolicy["local"][number] {
  const { name, counts, amount, burst, unit, unitCount: every = 1, key, when, amountFrom, cost, bucket, mode } = limit;
  const { unpriced, reserve } = limit;
  const { shareAcrossReplicas = limit.replicas !== undefined, windows } = limit;
  const optional = Object.entries({ unit, name, key, when, amountFrom, cost, bucket, unpriced, reserve }).filter(
    ([, value]) => value !== undefined,
  );
  return { counts, amount, burst, every, ...windows, shareAcrossReplicas, mode, ...Object.fromEntries(optional) };
}
