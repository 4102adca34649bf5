/**
 * From resources to what is served: a pure function of the world. Users' mistakes become conditions and problems,
 * never exceptions; what is sound is served whatever stands beside it. Golden files under `testdata/` show each case.
 */
import { runToEnd, type Steps } from "@gatewayproxy/runtime/steps";
import type { ResourceKey, ResourceSet } from "../api/resource.ts";
import type { ResourceProblem } from "../api/resource-problem.ts";
import type { Statuses } from "../api/status.ts";
import type { Snapshot } from "../ir/snapshot.ts";
import { defaultPathRules, type PathRules } from "../routing/path-rules.ts";
import { backendStatus } from "./backend-status.ts";
import { backendStateResolver } from "./backend-resource.ts";
import { referenceResolver } from "./backends.ts";
import { resolveTlsPolicies } from "./backend-tls.ts";
import { backendTlsPolicyStatus, gatewaysByService } from "./backend-tls-status.ts";
import { buildBinds, collectBackends } from "./binds.ts";
import { noCredentials, openCredentials, type SoundCredentials } from "./credentials.ts";
import { eachObject, itself } from "./each-object.ts";
import { type Environment, hostEnvironment } from "./environment.ts";
import { gatewayClassStatuses } from "./gateway-classes.ts";
import { gatewayStatus } from "./gateway-status.ts";
import { type GatewayState, resolveGateways } from "./gateways.ts";
import { globalTranslator, wantServices } from "./global-limits.ts";
import { listenerSetStatus } from "./listener-set-status.ts";
import { NameHints } from "./name-hints.ts";
import type { AddressDenial } from "./named-objects.ts";
import { namespaceLabels } from "./namespaces.ts";
import { compareText, nameKey } from "./object-names.ts";
import { attachPolicies, type RefusedPolicies } from "./policies.ts";
import { policyStatus } from "./policy-status.ts";
import { shareOutPatterns } from "./pattern-share.ts";
import {
  backendProblems,
  classProblems,
  gatewayProblems,
  policyProblems,
  routeProblems,
  tlsPolicyProblems,
} from "./problems.ts";
import { referencePermissions } from "./reference-grants.ts";
import { resolveConflicts, type RouteConflicts } from "./route-conflicts.ts";
import { routeStatuses } from "./route-status.ts";
import { resolveRoutes, routesByListener } from "./routes.ts";

export interface Translation extends Pick<Snapshot, "binds" | "backends"> {
  /** As Kubernetes mode writes them to the API server and file mode logs them. */
  readonly statuses: Statuses;
  /** What the conditions say, at the fields that are at fault. */
  readonly problems: readonly ResourceProblem[];
  /** Rules that get fewer requests than their matches say, as others go first. What is served is as written. */
  readonly conflicts: RouteConflicts;
  /** For `TranslateOptions.before` of the next translation. */
  readonly credentials: SoundCredentials;
}

export interface TranslateOptions {
  /** Leaves binds, backends, problems and conflicts empty, for who serves nothing. Default: false. */
  readonly onlyStatuses?: boolean;
  /** Default: Closed. */
  readonly refusedPolicies?: RefusedPolicies;
  /** Replicas of the proxy, this one included; they share the limits that say so. Default 1. */
  readonly readyReplicas?: number;
  /** Default: all Gateways in this process. */
  readonly environment?: Environment;
  /** Secrets and ConfigMaps that are named and may not be read; without them a missing one does not exist. */
  readonly unreadable?: ReadonlySet<ResourceKey>;
  /** Why backends must not be at a host and port, to follow both in a sentence. Default: every address is permitted. */
  readonly addressDenial?: AddressDenial;
  /** How paths of requests are normalised, which decides whether two paths are one. Default: `defaultPathRules`. */
  readonly pathRules?: PathRules;
  /** What was sound of the credentials until now, and stays in force where they are malformed. Default: nothing. */
  readonly before?: SoundCredentials;
}

/** Never throws for what users write, and gives the same for the same resources in any order. */
export function translate(known: ResourceSet, options: TranslateOptions = {}): Translation {
  return runToEnd(translateInSteps(known, options));
}

/** The same, in steps of one object each: thousands of them take seconds. */
export function* translateInSteps(known: ResourceSet, options: TranslateOptions = {}): Steps<Translation> {
  const { readyReplicas = 1, environment = hostEnvironment, unreadable = new Set() } = options;
  const { before = noCredentials, addressDenial = () => undefined, refusedPolicies = "Closed" } = options;
  const { pathRules = defaultPathRules } = options;
  const credentials = openCredentials(before);
  const hints = new NameHints();
  const resources = { ...known, unreadable, credentials, addressDenial, hints };
  // Each step judges one kind against those before it: routes need listeners, policies need both.
  const labels = namespaceLabels(resources.Namespace);
  const tlsPolicies = yield* resolveTlsPolicies(resources);
  const gateways = yield* resolveGateways(resources, labels, environment);
  // What a status says of a Gateway in pods of its own must not depend on other Gateways, of which its proxies know nothing.
  const placeOf = environment.isolatesGateways ? nameKey : () => "";
  const resolver = referenceResolver(resources, tlsPolicies);
  yield* wantServices(resources.ProxyPolicy, resolver);
  const judged = yield* resolveRoutes(resources, gateways, labels, resolver, placeOf);
  const routes = yield* shareOutPatterns(judged.routes, placeOf);
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
          ...judged.problems,
          ...(yield* routeProblems(routes)),
          ...tlsPolicies.policies.flatMap(tlsPolicyProblems),
          ...policies.flatMap(policyProblems),
          ...backends.flatMap(backendProblems),
        ]
      : [],
    conflicts: yield* conflicts.told(isServing ? routes : []),
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
