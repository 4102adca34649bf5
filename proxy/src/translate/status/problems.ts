/** The findings of translation as problems with their fields, for people. */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { resourceKey, type ResourceSet } from "../../api/resource.ts";
import { type ResourceProblem, resourceProblem } from "../../api/resource-problem.ts";
import type { BackendState } from "../backend/backend-resource.ts";
import { secretFindings } from "./backend-status.ts";
import { eachObject } from "../each-object.ts";
import type { Environment } from "../environment.ts";
import { type TlsPolicyState, tlsPolicyFindings } from "../backend/backend-tls.ts";
import { type Finding, problemsFrom } from "./finding.ts";
import { ourClasses, parametersFinding } from "../gateway/gateway-classes.ts";
import type { GatewayState } from "../gateway/gateways.ts";
import type { ListenerSetState } from "../listener/listener-sets.ts";
import type { ListenerState } from "../listener/listeners.ts";
import type { PolicyState } from "../policy/policies.ts";
import { routeOf, type RouteState } from "../route/routes.ts";

export function classProblems({ GatewayClass }: ResourceSet, environment: Environment): readonly ResourceProblem[] {
  return ourClasses(GatewayClass).flatMap((gatewayClass) =>
    problemsFrom(resourceKey(gatewayClass), parametersFinding(gatewayClass, environment)),
  );
}

export function gatewayProblems(state: GatewayState): readonly ResourceProblem[] {
  const { gateway, listeners, sets, rejections, unusableAddresses, unsupported, clientCertificate } = state;
  const own = [
    ...rejections,
    ...clientCertificate.unresolved,
    ...unusableAddresses,
    ...unsupported,
    ...listenerFindings(listeners),
  ];
  return [...problemsFrom(resourceKey(gateway), own), ...sets.flatMap(listenerSetProblems)];
}

function listenerSetProblems({ set, rejection, listeners }: ListenerSetState): readonly ResourceProblem[] {
  return problemsFrom(resourceKey(set), [
    ...(rejection === undefined ? [] : [rejection]),
    ...listenerFindings(listeners),
  ]);
}

/** Each listener of a port finds an error of the port's rule. Such an error occurs once in the result. */
function listenerFindings(listeners: readonly ListenerState[]): readonly Finding[] {
  const findings = listeners.flatMap(({ rejections, unresolved, unsupported }) => [
    ...rejections,
    ...unresolved,
    ...unsupported,
  ]);
  return [...new Map(findings.map((finding) => [JSON.stringify(finding), finding])).values()];
}

/** A route may have several states. Each problem occurs once. */
export function* routeProblems(states: readonly RouteState[]): Steps<readonly ResourceProblem[]> {
  const problems = (yield* eachObject(states, routeOf, problemsOfRoute)).flat();
  return [...new Map(problems.map((problem) => [JSON.stringify(problem), problem])).values()];
}

function problemsOfRoute({ route, parents, rules }: RouteState): readonly ResourceProblem[] {
  const rejections = parents.flatMap(({ rejection }) => rejection ?? []);
  const ofRules = rules.flatMap(({ invalid, unresolved, unsupported }) => [...invalid, ...unresolved, ...unsupported]);
  return problemsFrom(resourceKey(route), [...rejections, ...ofRules]);
}

export function tlsPolicyProblems(state: TlsPolicyState): readonly ResourceProblem[] {
  return problemsFrom(resourceKey(state.policy), tlsPolicyFindings(state));
}

export function policyProblems({ policy, targets, global }: PolicyState): readonly ResourceProblem[] {
  const key = resourceKey(policy);
  const problems = targets.flatMap(({ unattached }, index) =>
    unattached === undefined ? [] : [resourceProblem(key, ["spec", "targetRefs", index], unattached.message)],
  );
  return [...problems, ...problemsFrom(key, global?.findings ?? [])];
}

/** Routes that refer to the Backend report a Secret without a valid version. */
export function backendProblems({ resource, malformed, forbidden }: BackendState): readonly ResourceProblem[] {
  const findings = [...(forbidden === undefined ? [] : [forbidden]), ...secretFindings(malformed)];
  return problemsFrom(resourceKey(resource), findings);
}
