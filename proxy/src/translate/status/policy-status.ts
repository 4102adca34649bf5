/** The status of ProxyPolicies, with an ancestor per target, so that each target has its own conditions. */
import { renderPath } from "../../api/issue.ts";
import { controllerName, gatewayGroup } from "../../api/names.ts";
import type { AncestorStatus, PolicyCondition, PolicyStatus } from "../../api/status.ts";
import { joinMessages, observed } from "./finding.ts";
import { isUnreadable, type PolicyState, type TargetState } from "../policy/policies.ts";

export function policyStatus(state: PolicyState): PolicyStatus {
  const { namespace, name } = state.policy.metadata;
  return { namespace, name, ancestors: state.targets.map((target) => ancestorStatus(state, target)) };
}

function ancestorStatus(state: PolicyState, target: TargetState): AncestorStatus {
  const { kind, name, sectionName } = target.targetRef;
  const { namespace } = state.policy.metadata;
  const ref = { group: gatewayGroup, kind, namespace, name };
  return {
    ancestorRef: sectionName === undefined ? ref : { ...ref, sectionName },
    controllerName,
    conditions: [acceptedCondition(state), attachedCondition(state, target), ...volatileCondition(state, target)],
  };
}

function acceptedCondition(state: PolicyState): PolicyCondition {
  const generation = observed(state.policy.metadata.generation);
  if (state.policy.isRejected === true) {
    return { type: "Accepted", status: "False", reason: "Invalid", message: rejectedMessage, ...generation };
  }
  const { findings } = state;
  if (findings.length === 0) {
    return { type: "Accepted", status: "True", reason: "Valid", message: "policy is accepted", ...generation };
  }
  const message = joinMessages(
    findings.map((finding) => ({ message: `${renderPath(finding.path)}: ${finding.message}` })),
  );
  if (enforcedParts(state).length === 0) {
    return { type: "Accepted", status: "False", reason: "Invalid", message, ...generation };
  }
  return { type: "Accepted", status: "True", reason: "PartiallyValid", message, ...generation };
}

function attachedCondition(state: PolicyState, { rejection, inapplicable }: TargetState): PolicyCondition {
  const generation = observed(state.policy.metadata.generation);
  if (rejection !== undefined) {
    const { reason, message } = rejection;
    return { type: "Attached", status: "False", reason, message, ...generation };
  }
  const parts = enforcedParts(state);
  if (parts.length === 0) {
    const message = unenforcedMessage(state);
    return { type: "Attached", status: "False", reason: "Pending", message, ...generation };
  }
  const { parts: without = [] } = inapplicable ?? {};
  const except = without.length === 0 ? "" : `, except ${without.join(", ")}`;
  const message = enforcedMessage(state, parts) + except;
  return { type: "Attached", status: "True", reason: "Attached", message, ...generation };
}

/** Entries and Gateways that a message names at most. */
const maxNames = 5;

/** Units of windows that users expect to be counted over a restart of the proxy. */
const longUnits: ReadonlySet<string | undefined> = new Set(["Days", "Weeks", "Months"]);

function volatileCondition(
  state: PolicyState,
  { rejection, forgetfulPlaces }: TargetState,
): readonly PolicyCondition[] {
  if (forgetfulPlaces.length === 0 || rejection !== undefined || enforcedParts(state).length === 0) return [];
  const { local, global } = state.policy.spec.traffic.rateLimit;
  const isLong = ({ unit }: { readonly unit?: string | undefined }): boolean => longUnits.has(unit);
  const fields = [
    ...local.flatMap((entry, at) => (isLong(entry) ? `local[${at}]` : [])),
    ...(global?.fallback ?? []).flatMap((entry, at) => (isLong(entry) ? `global.fallback[${at}]` : [])),
  ];
  if (fields.length === 0) return [];
  const gateways = forgetfulPlaces.filter((place) => place !== "").sort();
  const [of, remedy] =
    gateways.length === 0
      ? ["the proxy", "--state-dir keeps them"]
      : [`a proxy of Gateway ${someOf(gateways)}`, "persistentVolumeClaim in the parameters of a Gateway keeps them"];
  const message = `the counters of ${someOf(fields)} start from zero with each start of ${of}; ${remedy}`;
  const generation = observed(state.policy.metadata.generation);
  return [{ type: "VolatileCounters", status: "True", reason: "NoStateDirectory", message, ...generation }];
}

function someOf(names: readonly string[]): string {
  return (names.length > maxNames ? [...names.slice(0, maxNames), "…"] : names).join(", ");
}

const rejectedMessage = "the current version is invalid, and no valid version is known";

/** Describes how the targets are served, by the setting for invalid policies. */
function unenforcedMessage({ policy, refusedPolicies }: PolicyState): string {
  const message = "nothing of the policy is enforced";
  if (policy.hasUnreadableAuthentication === true) {
    return `${message}: proxies without a valid version respond with 503 for its targets, since it has authentication`;
  }
  if (!isUnreadable(policy)) return message;
  return refusedPolicies === "Closed"
    ? `${message}: proxies without a valid version respond with 503 for its targets (--refused-policies Closed)`
    : `${message}: proxies without a valid version do not limit its targets (--refused-policies Open)`;
}

function enforcedMessage({ policy, global, authenticates }: PolicyState, parts: readonly string[]): string {
  const { local } = policy.spec.traffic.rateLimit;
  if (global !== undefined || authenticates) {
    const [only, other] = parts;
    const isOne = other === undefined && /^(?:1 (?!of)|the )/.test(only ?? "");
    return `${parts.join(" and ")} ${isOne ? "is" : "are"} enforced`;
  }
  return local.length === 1 ? "its local entry is enforced" : `all ${local.length} local entries are enforced`;
}

/** Describes the enforced parts of a policy; empty if there is none. */
function enforcedParts({ policy, global, authenticates }: PolicyState): readonly string[] {
  const { local, global: spec } = policy.spec.traffic.rateLimit;
  const entries = local.length === 0 ? [] : [`${local.length} local ${local.length === 1 ? "entry" : "entries"}`];
  const parts = authenticates ? ["the authentication", ...entries] : entries;
  if (global?.limit === undefined || spec === undefined) return parts;
  if (global.service !== undefined) {
    const valid = global.limit.descriptors.length;
    const all = spec.descriptors.length;
    const count = valid === all ? String(all) : `${valid} of ${all}`;
    return [...parts, `${count} global ${all === 1 ? "descriptor" : "descriptors"}`];
  }
  if (spec.failureMode === "Closed") return [...parts, "the rejection of every request by failureMode Closed"];
  const count = spec.fallback?.length ?? 0;
  return [...parts, `${count} fallback ${count === 1 ? "entry" : "entries"}`];
}
