/** `proxyctl config all`: a summary of a Gateway's configuration, short enough to be read as a whole. */
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import { backendRows, renderLatency } from "./backends.ts";
import { messagesOf } from "./condition-words.ts";
import { conflictLines } from "./conflicts.ts";
import { describePolicy, describeReference } from "./limit-words.ts";
import { conditionLines, gatewayNotes, gatewayRows } from "./gateways.ts";
import { listenerRows } from "./listeners.ts";
import { describeBackendRef, describeMatch, ruleName, statusOf } from "./routes.ts";

/** Returns the document of `-o yaml` and `-o json`. Empty lists without meaning are left out. */
export function summarize(dump: ConfigDump): object {
  return {
    proxy: {
      version: dump.version.version,
      mode: dump.config.mode,
      source: dump.config.source,
      generation: dump.config.generation,
    },
    gateways: gatewayRows(dump).map((row) => ({
      name: row.gateway.name,
      namespace: row.gateway.namespace,
      conditions: conditionLines(row.gateway.conditions),
      messages: orAbsent(gatewayNotes(row)),
    })),
    listeners: listenerRows(dump).map(({ bind, listener }) => ({
      name: listener.key,
      protocol: listener.protocol,
      address: bind.key,
      hostname: listener.hostname,
      fault: bind.fault,
    })),
    routes: dump.routes.map(summarizeRoute),
    backends: dump.backends.map((backend) => ({
      type: backend.type,
      name: backend.name,
      namespace: backend.namespace,
      provider: backend.ai?.provider,
      models: backend.ai?.models?.map(({ name, as }) => (name === as ? name : `${name} as ${as}`)),
      endpoints: backendRows([backend]).flatMap(({ endpoint, state }) => {
        if (state === undefined) return [];
        const { address, requests, health, latencyMs } = state;
        const latency = latencyMs === undefined ? undefined : renderLatency(latencyMs);
        return [{ endpoint, address, health: Number(health.toFixed(2)), requests, latency }];
      }),
    })),
    policies: dump.policies.map(summarizePolicy),
    problems: dump.config.problems.length === 0 ? undefined : dump.config.problems,
    conflicts: orAbsent(conflictLines(dump)),
  };
}

function summarizeRoute(route: ConfigDump["routes"][number]): object {
  return {
    name: route.name,
    namespace: route.namespace,
    status: statusOf(route),
    messages: orAbsent(route.parents.flatMap(({ conditions }) => messagesOf(conditions))),
    hostnames: orAbsent(route.hostnames),
    listeners: route.listeners,
    rules: route.rules.map((rule) => ({
      name: ruleName(rule),
      matches: rule.matches.map(describeMatch),
      filters: orAbsent(rule.filters.map(({ kind }) => kind)),
      backends: rule.backendRefs.map(describeBackendRef),
      limits: orAbsent(rule.limits.map((limit) => `${describeReference(limit)} at ${limit.target}`)),
    })),
  };
}

function summarizePolicy(policy: ConfigDump["policies"][number]): object {
  return {
    name: policy.name,
    namespace: policy.namespace,
    limits: describePolicy(policy),
    targets: policy.targets.map(({ target, isAttached, conditions }) => ({
      target,
      attached: isAttached,
      messages: orAbsent(messagesOf(conditions)),
    })),
  };
}

function orAbsent<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}
