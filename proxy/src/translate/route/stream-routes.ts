/** Translates the rules of TLSRoutes, TCPRoutes and UDPRoutes, which have backends and no matches. */
import { isStreamRouteKind, routeKey } from "@gatewayproxy/runtime/route-key";
import type { AnyRoute, StreamRouteResource } from "../../api/resource.ts";
import type { Backend, BackendRef } from "../../ir/snapshot.ts";
import type { BackendReferences } from "../backend/backends.ts";
import type { FindingOf } from "../status/findings-table.ts";
import type { ParentState } from "./attachment.ts";
import { backendRefOf } from "./rules.ts";

/** A rule of a stream route. */
export interface StreamRuleState {
  readonly rule: {
    /** The key of the route, and the index or the name of the rule. */
    readonly key: string;
    readonly name?: string;
    readonly backendRefs: readonly BackendRef[];
  };
  /** The existing backends of the rule. */
  readonly backends: readonly Backend[];
  /** None of them rejects a rule: the share of an unresolved backend is reset. */
  readonly findings: readonly FindingOf<"Rule">[];
}

/** A TLSRoute, TCPRoute or UDPRoute with its parents and rules. */
export interface StreamRouteState {
  readonly route: StreamRouteResource;
  readonly parents: readonly ParentState[];
  /** At least one. Only the first gets connections. */
  readonly rules: readonly StreamRuleState[];
  readonly isSupported: true;
}

/** Whether a route relays streams. */
export function isStreamRoute(route: AnyRoute): route is StreamRouteResource {
  return isStreamRouteKind(route.kind);
}

/** Translates the rules of a stream route. */
export function translateStreamRules(
  references: BackendReferences,
  route: StreamRouteResource,
): readonly StreamRuleState[] {
  return route.spec.rules.map((rule, index): StreamRuleState => {
    const path = ["spec", "rules", index];
    const refs = rule.backendRefs.map((ref, at) =>
      backendRefOf(references.resolve(route, ref), { weight: ref.weight, filters: [] }, [...path, "backendRefs", at]),
    );
    const unused: FindingOf<"Rule"> = {
      reason: "Unsupported",
      message: `only the first rule of a ${route.kind} is used, since rules have no matches`,
      path,
    };
    return {
      rule: {
        key: `${routeKey(route.kind, route.metadata)}/${rule.name ?? index}`,
        ...(rule.name === undefined ? {} : { name: rule.name }),
        backendRefs: refs.map(({ value }) => value),
      },
      backends: index === 0 ? refs.flatMap(({ backends }) => backends) : [],
      findings: [...refs.flatMap(({ findings }) => findings), ...(index === 0 ? [] : [unused])],
    };
  });
}
