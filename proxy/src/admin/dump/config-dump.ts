/** The answer of `/config_dump`, put together from its parts. Pure. */
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import { dumpBackends, dumpServices, dumpWorkloads } from "./backends.ts";
import { dumpBinds, dumpListeners } from "./binds.ts";
import type { DumpInput } from "./input.ts";
import { findNotServed } from "./not-served.ts";
import { dumpPolicies } from "./policies.ts";
import { dumpRoutes } from "./routes.ts";

export function renderConfigDump(input: DumpInput): ConfigDump {
  const { configuration, endpoints } = input;
  const backends = dumpBackends(configuration.snapshot, endpoints);
  return {
    version: {
      name: "gateway-proxy",
      version: input.process.version,
      node: process.versions.node,
      platform: `${process.platform}-${process.arch}`,
      startedAt: iso(input.process.startedMs),
    },
    config: dumpConfig(input),
    binds: dumpBinds(configuration),
    gateways: configuration.statuses.gateways.map(({ namespace, name, conditions }) => ({
      namespace,
      name,
      conditions,
    })),
    listeners: dumpListeners(configuration),
    routes: dumpRoutes(configuration),
    conflicts: dumpConflicts(configuration),
    backends,
    workloads: dumpWorkloads(backends),
    services: dumpServices(configuration),
    policies: dumpPolicies(configuration),
  };
}

function dumpConfig(input: DumpInput): ConfigDump["config"] {
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
    notServed: findNotServed(configuration),
  };
}

function dumpConflicts({ conflicts: { found, ...rest } }: DumpInput["configuration"]): ConfigDump["conflicts"] {
  const rules = found.map(({ route, rule, isReachable, winners, winnersLeftOut, message }) => ({
    ...{ route, rule, isReachable, winners, winnersLeftOut, message },
  }));
  return { rules, ...rest };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
