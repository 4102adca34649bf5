/**
 * What a status says over time: when each condition last changed, and what is new since it was last told. Pure; who
 * writes to the API server or to the log asks here what to write.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type {
  BackendTlsPolicyStatus,
  Condition,
  GatewayStatus,
  ListenerSetStatus,
  PolicyStatus,
  Statuses,
} from "../api/status.ts";

/** A condition as the Kubernetes API keeps it. */
export interface TimedCondition extends Condition {
  /** RFC 3339; when `status` last became another, not when its message did. */
  readonly lastTransitionTime: string;
}

/**
 * The conditions to write, given those that stand in the API: ours in their order, each with the time at which it
 * became what it is, and behind them the types that are not ours, untouched.
 *
 * @param ownedTypes types that are ours to write; one of them that is not in `current` is removed.
 * @param now RFC 3339
 */
export function mergeConditions(
  current: readonly Condition[],
  standing: readonly TimedCondition[],
  ownedTypes: readonly string[],
  now: string,
): readonly TimedCondition[] {
  const byType = new Map(standing.map((condition) => [condition.type, condition]));
  const ours = current.map((condition): TimedCondition => {
    const before = byType.get(condition.type);
    const isUnchanged = before?.status === condition.status;
    return { ...condition, lastTransitionTime: isUnchanged ? before.lastTransitionTime : now };
  });
  const isOurs = (type: string) => ownedTypes.includes(type) || current.some((condition) => condition.type === type);
  return [...ours, ...standing.filter(({ type }) => !isOurs(type))];
}

/** One condition of one object, as file mode logs it. */
export interface StatusLine {
  /** `HTTPRoute default/chat` */
  readonly resource: string;
  /** What it is judged against: the parent Gateway, the policy's target, the listener. */
  readonly of?: string;
  readonly condition: string;
  readonly status: Condition["status"];
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number;
}

/**
 * The lines of `statuses` that are not in `before` to the letter, in the order of the statuses. A condition that goes
 * because its object did is not told: the object's absence is no status.
 */
export function* changedStatusLines(statuses: Statuses, before: Statuses | undefined): Steps<readonly StatusLine[]> {
  const told = new Set<string>();
  for (const line of before === undefined ? [] : statusLines(before)) {
    told.add(JSON.stringify(line));
    yield;
  }
  const changed: StatusLine[] = [];
  for (const line of statusLines(statuses)) {
    if (!told.has(JSON.stringify(line))) changed.push(line);
    yield;
  }
  return changed;
}

/** Every condition as a line, made when it is asked for: there may be thousands. */
export function* statusLines(statuses: Statuses): Generator<StatusLine, undefined, undefined> {
  const { gatewayClasses, gateways, listenerSets, httpRoutes, backendTlsPolicies, proxyPolicies, backends } = statuses;
  for (const { name, conditions } of gatewayClasses) yield* lines(`GatewayClass ${name}`, undefined, conditions);
  for (const status of gateways) yield* linesWithListeners("Gateway", status);
  for (const status of listenerSets) yield* linesWithListeners("ListenerSet", status);
  for (const { namespace, name, parents } of httpRoutes) {
    for (const { parentRef, conditions } of parents) {
      const { kind, sectionName, port } = parentRef;
      const parent = `${kind} ${parentRef.namespace ?? namespace}/${parentRef.name}`;
      yield* lines(`HTTPRoute ${namespace}/${name}`, parent + section(sectionName) + portSuffix(port), conditions);
    }
  }
  for (const status of backendTlsPolicies) yield* linesWithAncestors("BackendTLSPolicy", status);
  for (const status of proxyPolicies) yield* linesWithAncestors("ProxyPolicy", status);
  for (const { namespace, name, conditions } of backends) {
    yield* lines(`Backend ${namespace}/${name}`, undefined, conditions);
  }
}

function linesWithAncestors(
  kind: string,
  { namespace, name, ancestors }: PolicyStatus | BackendTlsPolicyStatus,
): readonly StatusLine[] {
  return ancestors.flatMap(({ ancestorRef, conditions }) => {
    const target = `${ancestorRef.kind} ${ancestorRef.namespace}/${ancestorRef.name}`;
    return lines(`${kind} ${namespace}/${name}`, target + section(ancestorRef.sectionName), conditions);
  });
}

function linesWithListeners(
  kind: string,
  { namespace, name, conditions, listeners }: GatewayStatus | ListenerSetStatus,
): readonly StatusLine[] {
  const resource = `${kind} ${namespace}/${name}`;
  const ofListeners = listeners.flatMap((listener) =>
    lines(resource, `listener ${listener.name}`, listener.conditions),
  );
  return [...lines(resource, undefined, conditions), ...ofListeners];
}

function section(name: string | undefined): string {
  return name === undefined ? "" : `#${name}`;
}

function portSuffix(port: number | undefined): string {
  return port === undefined ? "" : `:${port}`;
}

function lines(resource: string, of: string | undefined, conditions: readonly Condition[]): readonly StatusLine[] {
  return conditions.map(({ type, ...rest }) => ({
    resource,
    ...(of === undefined ? {} : { of }),
    condition: type,
    ...rest,
  }));
}
