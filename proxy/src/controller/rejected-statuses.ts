/**
 * Statuses of objects that the API server has taken and the parser refuses: an expression or a regular expression that
 * cannot be compiled, a field of another version. Translation does not see such a version, or sees the last sound one,
 * which stays in force; the status has to say that this one is not. Pure.
 */
import { controllerName, gatewayGroup } from "../api/names.ts";
import { type RejectedResource, renderFaults } from "../api/rejected-resource.ts";
import type { AncestorStatus, ParentStatus, PolicyStatus, RouteStatus, Statuses } from "../api/status.ts";
import { isObject, type KubeObject } from "../kube/object.ts";

/** An object's name and generation, as far as they can be read. */
interface Identity {
  readonly namespace: string;
  readonly name: string;
  readonly generation: { readonly observedGeneration?: number };
}

/**
 * The statuses with those of refused objects in the place of any that their last sound version has.
 *
 * @param ours Gateways of ours, as `namespace/name`.
 */
export function withRejected(
  statuses: Statuses,
  rejected: readonly RejectedResource[],
  ours: ReadonlySet<string>,
): Statuses {
  const routes = rejected.flatMap((each) => (each.object["kind"] === "HTTPRoute" ? routeStatus(each, ours) : []));
  const policies = rejected.flatMap((each) =>
    each.object["kind"] === "ProxyPolicy" ? policyStatus(each, statuses) : [],
  );
  return {
    ...statuses,
    httpRoutes: replaced(statuses.httpRoutes, routes),
    proxyPolicies: replaced(statuses.proxyPolicies, policies),
  };
}

function routeStatus({ object, faults }: RejectedResource, ours: ReadonlySet<string>): readonly RouteStatus[] {
  const { namespace, name, generation } = identityOf(object);
  const message = renderFaults(faults);
  const parents = listOf(specOf(object)["parentRefs"]).flatMap((ref): readonly ParentStatus[] => {
    const {
      group = gatewayGroup,
      kind = "Gateway",
      namespace: home = namespace,
      name: parent,
      sectionName,
      port,
    } = ref;
    if (group !== gatewayGroup || kind !== "Gateway" || !ours.has(`${String(home)}/${String(parent)}`)) return [];
    const parentRef = {
      ...{ group: gatewayGroup, kind: "Gateway", name: String(parent) },
      ...(typeof ref["namespace"] === "string" && { namespace: ref["namespace"] }),
      ...(typeof sectionName === "string" && { sectionName }),
      ...(typeof port === "number" && { port }),
    };
    const refused = { status: "False", message, ...generation } as const;
    const conditions = [{ type: "Accepted", reason: "UnsupportedValue", ...refused } as const];
    return [{ parentRef, controllerName, conditions }];
  });
  return [{ namespace, name, parents }];
}

function policyStatus({ object, faults }: RejectedResource, { proxyPolicies }: Statuses): readonly PolicyStatus[] {
  const { namespace, name, generation } = identityOf(object);
  const message = renderFaults(faults);
  const isKept = proxyPolicies.some((each) => each.namespace === namespace && each.name === name);
  const ancestors = listOf(specOf(object)["targetRefs"]).map((ref): AncestorStatus => {
    const { kind, name: target, sectionName } = ref;
    const ancestorRef = { group: gatewayGroup, kind: String(kind), namespace, name: String(target) };
    const pending = isKept ? "its last sound version is enforced in its place" : "nothing of the policy is enforced";
    return {
      ancestorRef: typeof sectionName === "string" ? { ...ancestorRef, sectionName } : ancestorRef,
      controllerName,
      conditions: [
        { type: "Accepted", status: "False", reason: "Invalid", message, ...generation },
        { type: "Attached", status: "False", reason: "Pending", message: pending, ...generation },
      ],
    };
  });
  return [{ namespace, name, ancestors }];
}

interface Named {
  readonly namespace: string;
  readonly name: string;
}

function replaced<T extends Named>(standing: readonly T[], refused: readonly T[]): readonly T[] {
  const names = new Set(refused.map(({ namespace, name }) => `${namespace}/${name}`));
  return [...standing.filter(({ namespace, name }) => !names.has(`${namespace}/${name}`)), ...refused];
}

function identityOf({ metadata }: KubeObject): Identity {
  const { namespace, name, generation } = isObject(metadata) ? metadata : {};
  return {
    namespace: String(namespace),
    name: String(name),
    generation: typeof generation === "number" ? { observedGeneration: generation } : {},
  };
}

function specOf({ spec }: KubeObject): KubeObject {
  return isObject(spec) ? spec : {};
}

function listOf(value: unknown): readonly KubeObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
