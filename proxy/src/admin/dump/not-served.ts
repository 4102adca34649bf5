/** What is there and is not served, with the reason: the first thing to look at when a request goes nowhere. */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import { renderKey, type ResourceSet, resourceKey } from "../../api/resource.ts";
import { statusLines } from "../../status/conditions.ts";
import type { ConfigurationState } from "./input.ts";

type NotServed = ConfigDump["config"]["notServed"][number];

/** Conditions that say, when they are false, that something does not work. */
const positiveConditions = ["Accepted", "Programmed", "ResolvedRefs", "Attached"];

export function* findNotServed(configuration: ConfigurationState): Steps<readonly NotServed[]> {
  return [
    ...unreadable(configuration),
    ...(yield* falseConditions(configuration)),
    ...foreignGateways(configuration),
    ...orphanRoutes(configuration),
    ...unusedBackends(configuration),
  ];
}

/** Texts that are no resource, of which no earlier version is in force. */
function unreadable({ problems, resources }: ConfigurationState): readonly NotServed[] {
  const known = new Set(keysOf(resources));
  const byResource = Map.groupBy(problems, ({ resource }) => resource);
  return [...byResource].flatMap(([resource, faults]) => {
    if (resource === undefined || known.has(resource)) return [];
    const message = faults.map((fault) => `${fault.path === undefined ? "" : `${fault.path}: `}${fault.message}`);
    return [{ resource, reason: "Invalid", message: message.join("; ") }];
  });
}

function keysOf(resources: ResourceSet): readonly string[] {
  return Object.values(resources).flatMap((list) => list.map(resourceKey));
}

function* falseConditions({ statuses }: ConfigurationState): Steps<readonly NotServed[]> {
  const found: NotServed[] = [];
  for (const { resource, of, condition, status, reason, message } of statusLines(statuses)) {
    yield;
    if (status !== "False" || !positiveConditions.includes(condition)) continue;
    found.push({ resource, ...(of !== undefined && { of }), reason, message });
  }
  return found;
}

function foreignGateways({ resources, statuses }: ConfigurationState): readonly NotServed[] {
  const ours = new Set(statuses.gateways.map(({ namespace, name }) => renderKey("Gateway", namespace, name)));
  return resources.Gateway.filter((gateway) => !ours.has(resourceKey(gateway))).map((gateway) => ({
    resource: resourceKey(gateway),
    reason: "NotOurs",
    message: `its class ${gateway.spec.gatewayClassName} is not ours`,
  }));
}

function orphanRoutes({ resources, statuses }: ConfigurationState): readonly NotServed[] {
  const attached = statuses.httpRoutes.filter(({ parents }) => parents.length > 0);
  const known = new Set(attached.map(({ namespace, name }) => renderKey("HTTPRoute", namespace, name)));
  return resources.HTTPRoute.filter((route) => !known.has(resourceKey(route))).map((route) => ({
    resource: resourceKey(route),
    reason: "NotReferenced",
    message: "none of its parentRefs names a Gateway of ours, or a ListenerSet of one",
  }));
}

function unusedBackends({ resources, snapshot }: ConfigurationState): readonly NotServed[] {
  return resources.Backend.filter(
    ({ metadata: { namespace, name } }) => snapshot.backends[`Backend/${namespace}/${name}`] === undefined,
  ).map((backend) => ({
    resource: resourceKey(backend),
    reason: "NotReferenced",
    message: "no rule that is served names it",
  }));
}
