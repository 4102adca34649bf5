/**
 * Translates the global part of a ProxyPolicy. An invalid descriptor is omitted with a finding, and the others are
 * enforced. If the service is not found, the limits stay without an endpoint, so that their failure mode decides.
 * Dropping them would leave the targets unlimited.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { FieldPath } from "../../api/issue.ts";
import type { FallbackEntry, GlobalRateLimit, ProxyPolicy } from "../../api/proxy-policy.ts";
import type { GlobalDescriptor, GlobalLimit, OverrideRule } from "../../ir/global-limit.ts";
import type { LocalLimit } from "../../ir/limit.ts";
import type { Backend } from "../../ir/snapshot.ts";
import type { BackendReferences } from "../backend/backends.ts";
import type { TranslationContext } from "../context.ts";
import { eachObject, itself } from "../each-object.ts";
import type { ProblemCode } from "../../api/resource-problem.ts";
import type { Finding, Found } from "../status/finding.ts";
import { amountsOf, countedBy, counterPlace, nameOf, sharedBy, type Sharing } from "./limits.ts";
import { responsesOf } from "./limit-responses.ts";
import { nameKey } from "../index/object-names.ts";

/** The global part of a policy, before it is attached to a target. */
export interface GlobalState {
  /** Undefined if no descriptor is valid, or if the service does not exist and nothing decides without it. */
  readonly limit: Omit<GlobalLimit, "id" | "target" | "fallback"> | undefined;
  /** The service of the policy; undefined if it does not exist, and the failure mode decides. */
  readonly service: Backend | undefined;
}

const globalPath: FieldPath = ["spec", "traffic", "rateLimit", "global"];

/** Adds the rate limit services of policies to the demand of endpoints. */
export function* wantServices({ index }: TranslationContext, references: BackendReferences): Steps<void> {
  yield* eachObject(index.resources.ProxyPolicy, itself, (policy) => {
    const ref = policy.spec.traffic.rateLimit.global?.backendRef;
    if (ref !== undefined) references.want(policy, ref);
  });
}

/** Translates the global part of a policy; undefined if there is none. */
export function translateGlobal(
  context: TranslationContext,
  references: BackendReferences,
  policy: ProxyPolicy,
): Found<GlobalState | undefined, "Invalid"> {
  const { global, refundOn, usageChunk } = policy.spec.traffic.rateLimit;
  if (global === undefined) return { value: undefined, findings: [] };
  const { value: descriptors, findings: descriptorFindings } = validDescriptors(global);
  const resolution = resolveService(context, references, policy, global);
  const serviceFindings: Finding<"Invalid">[] = [];
  if (resolution.kind === "unresolved") {
    const message = `${resolution.message}; until that changes, failureMode ${global.failureMode} decides`;
    const path = [...globalPath, global.address === undefined ? "backendRef" : "address"];
    serviceFindings.push({ reason: "Invalid", message, path, code: resolution.code });
  }
  const service = resolution.kind === "resolved" ? resolution.value : undefined;
  const { mode, domain, timeout: timeoutMs, failureMode, envoyRatelimitedHeader, hitsMode } = global;
  const settings = {
    ...{ mode, domain, timeoutMs, failureMode, envoyRatelimitedHeader, hitsMode },
    ...(refundOn === undefined ? {} : { refundOn }),
    ...(usageChunk === undefined ? {} : { usageChunk }),
    ...responsesOf(policy),
  };
  const key = service?.key ?? unresolvedKey(policy, global);
  const limit = { policy: nameKey(policy), service: key, ...settings, descriptors };
  const decides = service !== undefined || decidesWithoutService(global);
  return {
    value: { limit: descriptors.length === 0 || !decides ? undefined : limit, service },
    findings: [...descriptorFindings, ...serviceFindings],
  };
}

type ServiceResolution =
  | { readonly kind: "resolved"; readonly value: Backend }
  | { readonly kind: "unresolved"; readonly message: string; readonly code?: ProblemCode | undefined };

/** Resolves the rate limit service of a policy. */
function resolveService(
  { addressDenial }: TranslationContext,
  references: BackendReferences,
  policy: ProxyPolicy,
  { address, backendRef }: GlobalRateLimit,
): ServiceResolution {
  if (address !== undefined) {
    const service = serviceAt(policy, address);
    const denial = service.endpoints.flatMap(({ host, port }) => addressDenial(host, port) ?? []);
    if (denial[0] === undefined) return { kind: "resolved", value: service };
    return { kind: "unresolved", message: `${address} ${denial[0]}` };
  }
  // The parser accepts exactly one of them.
  if (backendRef === undefined) return { kind: "unresolved", message: "has no service" };
  const resolution = references.resolve(policy, backendRef);
  if (resolution.kind === "resolved" && resolution.value.failover !== undefined) {
    const { namespace, name } = resolution.value;
    return {
      kind: "unresolved",
      message: `Backend ${namespace}/${name} has LLM providers, which are no rate limit service`,
    };
  }
  if (resolution.kind === "resolved" || resolution.kind === "unresolved") return resolution;
  return { kind: "unresolved", message: resolution.message };
}

/** Whether the failure mode decides while the service does not exist. */
function decidesWithoutService({ failureMode, fallback }: GlobalRateLimit): boolean {
  return failureMode === "Closed" || (failureMode === "Local" && fallback !== undefined);
}

/** Returns the valid descriptors of a policy. */
function validDescriptors(global: GlobalRateLimit): Found<readonly GlobalDescriptor[], "Invalid"> {
  const findings: Finding<"Invalid">[] = [];
  const addFindings = (errors: readonly string[], ...path: FieldPath): void => {
    for (const message of errors) findings.push({ reason: "Invalid", message, path: [...globalPath, ...path] });
  };
  const descriptors = global.descriptors.flatMap(
    ({ unit, entries, when, cost, limitOverride, reserve }, index): readonly GlobalDescriptor[] => {
      const before = findings.length;
      entries.forEach(({ expression }, place) => {
        addFindings(expression.errors, "descriptors", index, "entries", place, "expression");
      });
      addFindings(when?.errors ?? [], "descriptors", index, "when");
      addFindings(cost?.errors ?? [], "descriptors", index, "cost");
      const overrideErrors = limitOverride?.expression?.errors ?? [];
      addFindings(overrideErrors, "descriptors", index, "limitOverride", "requestsPerUnit");
      if (findings.length > before) return [];
      return [
        {
          index,
          counts: unit === "Tokens" ? "tokens" : "requests",
          entries: entries.map(({ name, expression, ifAbsent }) => ({
            key: name,
            expression: expression.source,
            ...(ifAbsent === "Skip" && { skipsAbsent: true as const }),
          })),
          ...(when !== undefined && { when: when.source }),
          ...(cost !== undefined && { cost: cost.source }),
          ...(limitOverride !== undefined && { limitOverride: overrideOf(limitOverride) }),
          ...(reserve === "Estimate" && { reserves: true as const }),
        },
      ];
    },
  );
  return { value: descriptors, findings };
}

function overrideOf({ unit, requestsPerUnit, expression }: ParsedOverride): OverrideRule {
  return {
    ...(requestsPerUnit !== undefined && { requestsPerUnit }),
    ...(expression !== undefined && { requestsPerUnitFrom: expression.source }),
    unit,
  };
}

type ParsedOverride = NonNullable<GlobalRateLimit["descriptors"][number]["limitOverride"]>;

/** `127.0.0.1:8081` or `[::1]:8081`. */
function serviceAt({ metadata: { namespace } }: ProxyPolicy, address: string): Backend {
  const colon = address.lastIndexOf(":");
  const host = address.slice(0, colon).replace(/^\[(.*)\]$/, "$1");
  const endpoints = [{ name: address, host, port: Number(address.slice(colon + 1)) }];
  return { key: `address/${address}`, kind: "Backend", namespace, name: address, endpoints };
}

/**
 * Returns a key for operators. No backend has it: another policy or route may be permitted to call the service to which
 * this one is not.
 */
function unresolvedKey(policy: ProxyPolicy, { address, backendRef }: GlobalRateLimit): string {
  const { kind = "Service", namespace = policy.metadata.namespace, name = "", port } = backendRef ?? {};
  return `unresolved/${address ?? `${kind}/${namespace}/${name}${port === undefined ? "" : `:${port}`}`}`;
}

/**
 * Returns the global limit of a policy at one of its targets.
 *
 * @param sharing of the entries of its fallback.
 */
export function globalLimitAt(
  policy: ProxyPolicy,
  { limit }: GlobalState,
  target: string,
  sharing: Sharing,
): GlobalLimit | undefined {
  if (limit === undefined) return undefined;
  const entries = policy.spec.traffic.rateLimit.global?.fallback ?? [];
  const fallback = entries.map((entry, index) => fallbackLimit(policy, entry, index, limit, target, sharing));
  return { id: `${limit.policy} ${target}`, target, ...limit, fallback };
}

function fallbackLimit(
  owner: ProxyPolicy,
  fallback: FallbackEntry,
  entry: number,
  { policy, mode, refundOn }: Pick<GlobalLimit, "policy" | "mode" | "refundOn">,
  target: string,
  sharing: Sharing,
): LocalLimit {
  const amounts = amountsOf(fallback);
  return {
    counter: `${counterPlace(policy, target)} fallback ${entry} ${countedBy(amounts)}`,
    policy,
    entry,
    ...nameOf(fallback),
    target,
    ...amounts,
    ...sharedBy(owner, fallback, amounts, sharing),
    mode,
    ...(refundOn === undefined ? {} : { refundOn }),
    ...responsesOf(owner),
  };
}
