/** Reduces a dump to one Gateway: a proxy in file mode, or a saved dump, may have several. */
import { routeTarget } from "@gatewayproxy/runtime/route-key";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { ConfigDump, DumpedPolicy, DumpedRoute } from "@gatewayproxy/admin-api/config-dump";
import { CommandError } from "../command-error.ts";

/** The namespace and name of a Gateway. */
export interface GatewayName {
  readonly namespace: string;
  readonly name: string;
}

/**
 * Returns the listeners of the Gateway, the routes attached to it, their backends and the policies that apply. Throws a
 * `CommandError` if the dump has no such Gateway.
 */
export function narrowToGateway(dump: ConfigDump, gateway: GatewayName): ConfigDump {
  requireGateway(dump, gateway);
  const isSelected = (candidate: GatewayName): boolean =>
    candidate.namespace === gateway.namespace && candidate.name === gateway.name;
  const listeners = dump.listeners.filter((listener) => isSelected(listener.gateway));
  const binds = dump.binds
    .map((bind) => ({ ...bind, listeners: bind.listeners.filter((listener) => isSelected(listener.gateway)) }))
    .filter((bind) => bind.listeners.length > 0);
  const prefix = `${objectKey(gateway)}/`;
  const routes = dump.routes.filter((route) => isAttachedTo(route, gateway, prefix));
  const policies = dump.policies.filter((policy) => applies(policy, gateway, routes));
  const used = new Set([
    ...routes.flatMap(({ rules }) => rules.flatMap(({ backendRefs }) => backendRefs.map(({ backend }) => backend))),
    ...policies.map(({ global }) => global?.service),
  ]);
  const backends = dump.backends.filter(({ key }) => used.has(key));
  const gateways = dump.gateways.filter(isSelected);
  const rules = dump.conflicts.rules.filter(({ winners }) =>
    winners.some((candidate) => candidate.listener.startsWith(prefix)),
  );
  const conflicts = { ...dump.conflicts, rules };
  return { ...dump, gateways, listeners, binds, routes, conflicts, policies, backends };
}

/** Throws a `CommandError` that lists the existing Gateways if the dump has no such Gateway. */
export function requireGateway(dump: ConfigDump, gateway: GatewayName): void {
  const isServed = dump.listeners.some(
    ({ gateway: candidate }) => candidate.namespace === gateway.namespace && candidate.name === gateway.name,
  );
  if (!isServed) throw unknownGateway(dump, gateway);
}

function isAttachedTo(route: DumpedRoute, { namespace, name }: GatewayName, listenerPrefix: string): boolean {
  const isParent = ({ parent }: DumpedRoute["parents"][number]): boolean => {
    return parent.split(/[#:]/)[0] === `Gateway ${namespace}/${name}`;
  };
  return route.parents.some(isParent) || route.listeners.some((key) => key.startsWith(listenerPrefix));
}

function applies({ targets }: DumpedPolicy, { namespace, name }: GatewayName, routes: readonly DumpedRoute[]): boolean {
  const keys = new Set([`Gateway/${namespace}/${name}`, ...routes.map(({ key }) => routeTarget(key))]);
  return targets.some(({ target }) => keys.has(target.split("#")[0] ?? ""));
}

function unknownGateway(dump: ConfigDump, { namespace, name }: GatewayName): CommandError {
  const known = new Set(dump.listeners.map(({ gateway }) => `gateway/${gateway.name} -n ${gateway.namespace}`));
  const advice =
    known.size === 0 ? "it has no Gateway at all: see `proxyctl doctor`" : `it has: ${[...known].join(", ")}`;
  return new CommandError({
    message: `find the Gateway ${JSON.stringify(name)} of namespace ${JSON.stringify(namespace)}: the proxy does not know it`,
    advice: [advice],
  });
}
