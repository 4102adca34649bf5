/**
 * Translates resources to a snapshot: a pure function. Errors of users become conditions and problems, never
 * exceptions. Valid objects are served, whatever other objects contain. The golden files in `testdata/` show each case.
 */
import { runToEnd, type Steps } from "@gatewayproxy/runtime/steps";
import type { ResourceSet } from "../api/resource.ts";
import type { ResourceProblem } from "../api/resource-problem.ts";
import type { Statuses } from "../api/status.ts";
import type { Snapshot } from "../ir/snapshot.ts";
import { resolveTlsPolicies } from "./backend/backend-tls.ts";
import { BackendReferences, resolveBackends } from "./backend/backends.ts";
import { openContext, type TranslateOptions } from "./context.ts";
import { resolveGateways } from "./gateway/gateways.ts";
import { prepareIndex } from "./index/resource-index.ts";
import { buildBinds, collectBackends } from "./listener/binds.ts";
import { wantServices } from "./policy/global-limits.ts";
import { attachPolicies } from "./policy/policies.ts";
import { shareOutPatterns } from "./route/pattern-share.ts";
import { resolveConflicts, type RouteConflicts } from "./route/route-conflicts.ts";
import { resolveRoutes, routesByListener } from "./route/routes.ts";
import { resolveStreamConflicts } from "./route/stream-conflicts.ts";
import { problemsOf } from "./status/problems.ts";
import { statusesOf } from "./status/statuses.ts";
import type { ValidCredentials } from "./tls/credentials.ts";

/** The binds and backends to serve, and everything to report. */
export interface Translation extends Pick<Snapshot, "binds" | "backends"> {
  /** Kubernetes mode writes them to the API server, file mode logs them. */
  readonly statuses: Statuses;
  /** The errors of the conditions, each with its field. */
  readonly problems: readonly ResourceProblem[];
  /**
   * Rules that get fewer requests than their matches suggest, since others have precedence. They do not affect the
   * snapshot.
   */
  readonly conflicts: RouteConflicts;
  /** For `TranslateOptions.before` of the next translation. */
  readonly credentials: ValidCredentials;
}

/** Never throws because of resources. Returns the same value for the same resources in any order. */
export function translate(known: ResourceSet, options: TranslateOptions = {}): Translation {
  return runToEnd(translateInSteps(known, options));
}

/** As `translate`, with a step for each object, since thousands of them take seconds. */
export function* translateInSteps(resources: ResourceSet, options: TranslateOptions = {}): Steps<Translation> {
  const context = openContext(resources, options);
  yield* prepareIndex(resources);
  // Each kind is resolved with those before it: routes need listeners and backends, policies need all of them.
  const tlsPolicies = yield* resolveTlsPolicies(context);
  const backends = yield* resolveBackends(context);
  const references = new BackendReferences(context, tlsPolicies, backends);
  const gateways = yield* resolveGateways(context);
  // All references are counted before the first is resolved, so that namespaces share the budget of endpoints fairly.
  yield* wantServices(context, references);
  const resolved = yield* resolveRoutes(context, gateways, references);
  const routes = yield* shareOutPatterns(resolved.routes, context.placeOf);
  const { streams } = resolved;
  const attached = { requests: yield* routesByListener(routes), streams: yield* routesByListener(streams) };
  const gatewayStates = [...gateways.ours.values()];
  const conflicts = yield* resolveConflicts(context, gatewayStates, attached.requests);
  const streamConflicts = yield* resolveStreamConflicts(attached.streams);
  const targets = { gateways, routes, streams, references, conflicts, streamConflicts };
  const { policies, limits } = yield* attachPolicies(context, targets);
  const states = { gateways: gatewayStates, routes, streams, tlsPolicies: tlsPolicies.policies, policies, backends };
  const isServing = options.onlyStatuses !== true;

  return {
    binds: isServing ? yield* buildBinds(gatewayStates, attached, limits) : [],
    backends: isServing ? yield* collectBackends(gateways.ours, [...routes, ...streams], policies) : [],
    statuses: yield* statusesOf(context, states, attached, { conflicts, streamConflicts }),
    problems: isServing ? [...gateways.problems, ...resolved.problems, ...(yield* problemsOf(context, states))] : [],
    conflicts: yield* conflicts.report(isServing ? routes : []),
    credentials: context.credentials.valid,
  };
}
