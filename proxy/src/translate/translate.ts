/**
 * Translates resources to a snapshot: a pure function. Errors of users become conditions and problems, never exceptions.
 * Valid objects are served, whatever other objects contain. The golden files in `testdata/` show each case.
 */
import { runToEnd, type Steps } from "@gatewayproxy/runtime/steps";
import type { ResourceKey, ResourceSet } from "../api/resource.ts";
import type { ResourceProblem } from "../api/resource-problem.ts";
import type { Statuses } from "../api/status.ts";
import type { Snapshot } from "../ir/snapshot.ts";
import { defaultPathRules, type PathRules } from "../routing/path-rules.ts";
import { backendStatus } from "./status/backend-status.ts";
import { backendStateResolver } from "./backend/backend-resource.ts";
import { referenceResolver } from "./backend/backends.ts";
import { resolveTlsPolicies } from "./backend/backend-tls.ts";
import { backendTlsPolicyStatus, gatewaysByService } from "./status/backend-tls-status.ts";
import { buildBinds, collectBackends } from "./listener/binds.ts";
import { noCredentials, openCredentials, type SoundCredentials } from "./tls/credentials.ts";
import { eachObject, itself } from "./each-object.ts";
import { type Environment, hostEnvironment } from "./environment.ts";
import { gatewayClassStatuses } from "./gateway/gateway-classes.ts";
import { gatewayStatus } from "./status/gateway-status.ts";
import { type GatewayState, resolveGateways } from "./gateway/gateways.ts";
import { globalTranslator, wantServices } from "./policy/global-limits.ts";
import { listenerSetStatus } from "./status/listener-set-status.ts";
import { NameHints } from "./reference/name-hints.ts";
import type { AddressDenial } from "./reference/named-objects.ts";
import { namespaceLabels } from "./index/namespaces.ts";
import { compareText, nameKey } from "./index/object-names.ts";
import { attachPolicies, type RefusedPolicies } from "./policy/policies.ts";
import { policyStatus } from "./status/policy-status.ts";
import { shareOutPatterns } from "./route/pattern-share.ts";
import {
  backendProblems,
  classProblems,
  gatewayProblems,
  policyProblems,
  routeProblems,
  tlsPolicyProblems,
} from "./status/problems.ts";
import { referencePermissions } from "./reference/reference-grants.ts";
import { resolveConflicts, type RouteConflicts } from "./route/route-conflicts.ts";
import { routeStatuses } from "./status/route-status.ts";
import { resolveRoutes, routesByListener } from "./route/routes.ts";

export interface Translation extends Pick<Snapshot, "binds" | "backends"> {
  /** Kubernetes mode writes them to the API server, file mode logs them. */
  readonly statuses: Statuses;
  /** The errors of the conditions, each with its field. */
  readonly problems: readonly ResourceProblem[];
  /** Rules that get fewer requests than their matches suggest, since others have precedence. They do not affect the snapshot. */
  readonly conflicts: RouteConflicts;
  /** For `TranslateOptions.before` of the next translation. */
  readonly credentials: SoundCredentials;
}

export interface TranslateOptions {
  /** Leaves binds, backends, problems and conflicts empty, for callers that serve nothing. Default: false. */
  readonly onlyStatuses?: boolean;
  /** Default: Closed. */
  readonly refusedPolicies?: RefusedPolicies;
  /** Replicas of the proxy, including this one. They divide limits with `shareAcrossReplicas`. Default: 1. */
  readonly readyReplicas?: number;
  /** Default: all Gateways in this process. */
  readonly environment?: Environment;
  /** Secrets and ConfigMaps that resources refer to and that must not be read. Any other missing one does not exist. */
  readonly unreadable?: ReadonlySet<ResourceKey>;
  /** Returns why the proxy does not connect to a host and port. Default: every address is permitted. */
  readonly addressDenial?: AddressDenial;
  /** How paths of requests are normalized, which decides whether two paths are equal. Default: `defaultPathRules`. */
  readonly pathRules?: PathRules;
  /** The last valid credentials, which stay in use if the current ones are malformed. Default: none. */
  readonly before?: SoundCredentials;
}

/** Never throws because of resources. Returns the same value for the same resources in any order. */
export function translate(known: ResourceSet, options: TranslateOptions = {}): Translation {
  return runToEnd(translateInSteps(known, options));
}

/** As `translate`, with a step for each object, since thousands of them take seconds. */
export function* translateInSteps(known: ResourceSet, options: TranslateOptions = {}): Steps<Translation> {
  const { readyReplicas = 1, environment = hostEnvironment, unreadable = new Set() } = options;
  const { before = noCredentials, addressDenial = () => undefined, refusedPolicies = "Closed" } = options;
  const { pathRules = defaultPathRules } = options;
  const credentials = openCredentials(before);
  const hints = new NameHints();
  const resources = { ...known, unreadable, credentials, addressDenial, hints };
  // Each kind is resolved with those before it: routes need listeners, policies need both.
  const labels = namespaceLabels(resources.Namespace);
  const tlsPolicies = yield* resolveTlsPolicies(resources);
  const gateways = yield* resolveGateways(resources, labels, environment);
  // The status of a Gateway with its own pods must not depend on other Gateways, which its proxies do not know.
  const placeOf = environment.isolatesGateways ? nameKey : () => "";
  const resolver = referenceResolver(resources, tlsPolicies);
  yield* wantServices(resources.ProxyPolicy, resolver);
  const resolved = yield* resolveRoutes(resources, gateways, labels, resolver, placeOf);
  const routes = yield* shareOutPatterns(resolved.routes, placeOf);
  const attached = yield* routesByListener(routes);
  const gatewayStates = [...gateways.ours.values()];
  const conflicts = yield* resolveConflicts(gatewayStates, attached, placeOf, pathRules);
  const translateGlobal = globalTranslator(resources, resolver);
  const context = { gateways, routes, translateGlobal, readyReplicas, refusedPolicies, conflicts, hints, placeOf };
  const { policies, limits } = yield* attachPolicies(resources.ProxyPolicy, context);
  const users = yield* gatewaysByService(routes, referencePermissions(resources.ReferenceGrant));
  const backends = yield* eachObject(resources.Backend, itself, backendStateResolver(resources));
  const isServing = options.onlyStatuses !== true;

  return {
    binds: isServing ? yield* buildBinds(gatewayStates, attached, limits) : [],
    backends: isServing ? yield* collectBackends(gateways.ours, routes, policies) : {},
    statuses: {
      gatewayClasses: gatewayClassStatuses(resources.GatewayClass, environment),
      gateways: yield* eachObject(gatewayStates, gatewayOf, (state) => gatewayStatus(state, attached)),
      listenerSets: (yield* eachObject(gatewayStates, gatewayOf, (state) =>
        state.sets.map((set) => listenerSetStatus(set, state, attached)),
      ))
        .flat()
        .sort(byName),
      httpRoutes: (yield* routeStatuses(routes, conflicts)).sort(byName),
      backendTlsPolicies: (yield* eachObject(tlsPolicies.policies, policyOf, (state) =>
        backendTlsPolicyStatus(state, users),
      )).sort(byName),
      proxyPolicies: (yield* eachObject(policies, policyOf, policyStatus)).sort(byName),
      backends: (yield* eachObject(backends, ({ resource }) => resource, backendStatus)).sort(byName),
    },
    problems: isServing
      ? [
          ...classProblems(resources, environment),
          ...gateways.problems,
          ...(yield* eachObject(gatewayStates, gatewayOf, gatewayProblems)).flat(),
          ...resolved.problems,
          ...(yield* routeProblems(routes)),
          ...tlsPolicies.policies.flatMap(tlsPolicyProblems),
          ...policies.flatMap(policyProblems),
          ...backends.flatMap(backendProblems),
        ]
      : [],
    conflicts: yield* conflicts.report(isServing ? routes : []),
    credentials: credentials.sound,
  };
}

const gatewayOf = ({ gateway }: GatewayState) => gateway;
const policyOf = <Policy>({ policy }: { readonly policy: Policy }): Policy => policy;

interface ObjectStatus {
  readonly namespace: string;
  readonly name: string;
}

function byName(a: ObjectStatus, b: ObjectStatus): number {
  return compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}
