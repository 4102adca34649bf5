/** Lists the objects that are not served, with the reason: the first thing to check when requests fail. */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import { renderKey, type ResourceSet, resourceKey, routesOf } from "../../api/resource.ts";
import { routeStatusesIn } from "../../api/status.ts";
import { statusLines } from "../../status/conditions.ts";
import type { ConfigurationState } from "./input.ts";

type NotServed = ConfigDump["config"]["notServed"][number];

/** Conditions whose status False means that something does not work. */
const positiveConditions = ["Accepted", "Programmed", "ResolvedRefs", "Attached"];

export function* findNotServed(configuration: ConfigurationState): Steps<readonly NotServed[]> {
  return [
    ...unreadable(configuration),
    ...(yield* falseConditions(configuration)),
    ...gatewaysOfOtherClasses(configuration),
    ...orphanRoutes(configuration),
    ...unusedBackends(configuration),
  ];
}

/** Invalid objects without a previous valid version in use. */
function unreadable({ problems, resources }: ConfigurationState): readonly NotServed[] {
  const validKeys = new Set(keysOf(resources));
  const byResource = Map.groupBy(problems, ({ resource }) => resource);
  return [...byResource].flatMap(([resource, problemsOfResource]) => {
    if (resource === undefined || validKeys.has(resource)) return [];
    const messages = problemsOfResource.map(
      ({ path, message }) => `${path === undefined ? "" : `${path}: `}${message}`,
    );
    return [{ resource, reason: "Invalid", message: messages.join("; ") }];
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

function gatewaysOfOtherClasses({ resources, statuses }: ConfigurationState): readonly NotServed[] {
  const served = new Set(statuses.gateways.map(({ namespace, name }) => renderKey("Gateway", namespace, name)));
  return resources.Gateway.filter((gateway) => !served.has(resourceKey(gateway))).map((gateway) => ({
    resource: resourceKey(gateway),
    reason: "NotOurs",
    message: `its class ${gateway.spec.gatewayClassName} is not handled by this gateway`,
  }));
}

function orphanRoutes({ resources, statuses }: ConfigurationState): readonly NotServed[] {
  const attachedKeys = new Set<string>();
  for (const [kind, { namespace, name, parents }] of routeStatusesIn(statuses)) {
    if (parents.length > 0) attachedKeys.add(renderKey(kind, namespace, name));
  }
  return routesOf(resources)
    .filter((route) => !attachedKeys.has(resourceKey(route)))
    .map((route) => ({
      resource: resourceKey(route),
      reason: "NotReferenced",
      message: "none of its parentRefs names a Gateway of this class, or a ListenerSet of one",
    }));
}

function unusedBackends({ resources, snapshot }: ConfigurationState): readonly NotServed[] {
  // A backend may be in the snapshot under several keys.
  const used = new Set(snapshot.backends.map(({ kind, namespace, name }) => renderKey(kind, namespace, name)));
  return resources.Backend.filter((backend) => !used.has(resourceKey(backend))).map((backend) => ({
    resource: resourceKey(backend),
    reason: "NotReferenced",
    message: "no served rule refers to it",
  }));
}
