/**
 * The findings of translation as problems with their fields, for people. Every finding of an object is a problem of it.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { type Resource, resourceKey } from "../../api/resource.ts";
import { type ResourceProblem, resourceProblem } from "../../api/resource-problem.ts";
import type { BackendState } from "../backend/backend-resource.ts";
import type { TlsPolicyState } from "../backend/backend-tls.ts";
import type { TranslationContext } from "../context.ts";
import { eachObject } from "../each-object.ts";
import type { Pages } from "@gatewayproxy/runtime/lists";
import { memoised } from "@gatewayproxy/runtime/memoised";
import { classFindings, ourClasses } from "../gateway/gateway-classes.ts";
import type { GatewayState } from "../gateway/gateways.ts";
import type { PolicyState } from "../policy/policies.ts";
import type { AnyRouteState, RouteState } from "../route/routes.ts";
import type { StreamRouteState } from "../route/stream-routes.ts";
import type { Finding } from "./finding.ts";

/** The states of all objects that may have findings. */
export interface ResolvedStates {
  readonly gateways: readonly GatewayState[];
  readonly routes: Pages<RouteState>;
  readonly streams: Pages<StreamRouteState>;
  readonly tlsPolicies: readonly TlsPolicyState[];
  readonly policies: readonly PolicyState[];
  readonly backends: readonly BackendState[];
}

interface ObjectFindings {
  readonly object: Resource;
  readonly findings: readonly Finding[];
}

/**
 * Returns the problems of all objects, each once: a route may have several states, and a port's rule several listeners.
 */
export function* problemsOf(context: TranslationContext, states: ResolvedStates): Steps<readonly ResourceProblem[]> {
  const problems = yield* eachObject(findingsByObject(context, states), objectOf, ({ object, findings }) =>
    findings.map(({ path, message, code }) => resourceProblem(resourceKey(object), path, message, code)),
  );
  return [...new Map(problems.flat().map((problem) => [JSON.stringify(problem), problem])).values()];
}

const objectOf = ({ object }: ObjectFindings): Resource => object;

function* findingsByObject(
  { index, environment }: TranslationContext,
  { gateways, routes, streams, tlsPolicies, policies, backends }: ResolvedStates,
): Iterable<ObjectFindings> {
  for (const object of ourClasses(index.resources.GatewayClass)) {
    yield { object, findings: classFindings(object, environment) };
  }
  for (const { gateway, findings, listeners, sets } of gateways) {
    yield { object: gateway, findings: [...findings, ...listeners.flatMap((listener) => listener.findings)] };
    for (const { set, findings: ofSet, listeners: own } of sets) {
      yield { object: set, findings: [...ofSet, ...own.flatMap((listener) => listener.findings)] };
    }
  }
  for (const page of [...routes, ...streams]) yield* findingsIn(page);
  for (const { policy, targets, findings } of tlsPolicies) {
    yield { object: policy, findings: [...rejections(targets), ...findings] };
  }
  for (const { policy, targets, findings } of policies) {
    yield { object: policy, findings: [...rejections(targets), ...findings] };
  }
  for (const { resource, findings } of backends) yield { object: resource, findings };
}

/** The routes of a page that have findings. */
const findingsIn = memoised((page: readonly AnyRouteState[]): readonly ObjectFindings[] =>
  page.flatMap(({ route, parents, rules }) => {
    const ofRules: readonly { readonly findings: readonly Finding[] }[] = rules;
    const findings = [...rejections(parents), ...ofRules.flatMap((rule) => rule.findings)];
    return findings.length > 0 ? [{ object: route, findings }] : [];
  }),
);

function rejections(places: readonly { readonly rejection: Finding | undefined }[]): readonly Finding[] {
  return places.flatMap(({ rejection }) => rejection ?? []);
}
