/** The response of `/config_dump`, assembled in steps, because there may be thousands of routes. Pure functions. */
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import { dumpBackends, dumpServices, dumpWorkloads } from "./backends.ts";
import { dumpBinds, dumpListeners } from "./binds.ts";
import type { DumpInput } from "./input.ts";
import { findNotServed } from "./not-served.ts";
import { dumpPolicies } from "./policies.ts";
import { dumpRoutes } from "./routes.ts";

export function* renderConfigDump(input: DumpInput): Steps<ConfigDump> {
  const { configuration, endpoints, keySets } = input;
  const backends = yield* dumpBackends(configuration.snapshot, endpoints, input.providers);
  return {
    version: {
      name: "gateway-proxy",
      version: input.process.version,
      node: process.versions.node,
      platform: `${process.platform}-${process.arch}`,
      startedAt: iso(input.process.startedMs),
    },
    config: yield* dumpConfig(input),
    binds: yield* dumpBinds(configuration),
    gateways: configuration.statuses.gateways.map(({ namespace, name, conditions }) => ({
      namespace,
      name,
      conditions,
    })),
    listeners: yield* dumpListeners(configuration),
    routes: yield* dumpRoutes(configuration),
    conflicts: yield* dumpConflicts(configuration),
    backends,
    workloads: yield* dumpWorkloads(backends),
    services: yield* dumpServices(configuration),
    policies: yield* dumpPolicies(configuration, keySets),
  };
}

function* dumpConfig(input: DumpInput): Steps<ConfigDump["config"]> {
  const { configuration, workers, workerDeaths } = input;
  const { mode, source, settings } = input.process;
  const { snapshot, servingSinceMs, problems, lastRejected } = configuration;
  return {
    mode,
    source,
    settings,
    generation: snapshot.generation,
    ...(servingSinceMs !== undefined && { servingSince: iso(servingSinceMs) }),
    workers,
    workerDeaths: workerDeaths.map(({ lastMs, ...death }) => ({ ...death, lastAt: iso(lastMs) })),
    problems,
    ...(lastRejected !== undefined && {
      lastRejected: {
        at: iso(lastRejected.atMs),
        generation: lastRejected.generation,
        isCurrent: problems.length > 0,
        problems: lastRejected.problems,
        keptAtEarlierVersion: lastRejected.kept,
      },
    }),
    notServed: yield* findNotServed(configuration),
  };
}

function* dumpConflicts({ conflicts: { found, ...rest } }: DumpInput["configuration"]): Steps<ConfigDump["conflicts"]> {
  const rules = yield* mapInSteps(found, ({ route, rule, isReachable, winners, winnersLeftOut, message }) => ({
    ...{ route, rule, isReachable, winners, winnersLeftOut, message },
  }));
  return { rules, ...rest };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
