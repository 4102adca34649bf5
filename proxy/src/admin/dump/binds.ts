/** Sockets and listeners as they are served, and listeners as they are declared. */
import { X509Certificate } from "node:crypto";
import { renderSocketAddress } from "@gatewayproxy/runtime/setting-kinds";
import type { DumpedBind, DumpedListener } from "@gatewayproxy/admin-api/config-dump";
import type { ListenerStatus } from "../../api/status.ts";
import type { Certificate, Listener, ListenerTls } from "../../ir/snapshot.ts";
import type { ConfigurationState } from "./input.ts";

export function dumpBinds({ snapshot, failures }: ConfigurationState): readonly DumpedBind[] {
  return snapshot.binds.map(({ address, port, listeners }) => {
    const failure = failures.find((candidate) => candidate.address === address && candidate.port === port);
    return {
      key: renderSocketAddress({ host: address ?? "*", port }),
      ...(address !== undefined && { address }),
      port,
      isOpen: failure === undefined,
      ...(failure !== undefined && { fault: failure.message }),
      listeners: listeners.map(dumpServedListener),
    };
  });
}

function dumpServedListener(listener: Listener): DumpedBind["listeners"][number] {
  const { key, name, gateway, protocol, hostname, tls, routes } = listener;
  return {
    key,
    name,
    gateway,
    protocol,
    ...(hostname !== undefined && { hostname }),
    ...(tls !== undefined && { tls: dumpTls(tls) }),
    routes: routes.map((route) => ({ route: route.key, hostnames: route.hostnames })),
  };
}

type DumpedTls = NonNullable<DumpedBind["listeners"][number]["tls"]>;

function dumpTls({ certificates, minVersion, maxVersion, protocols, clientValidation }: ListenerTls): DumpedTls {
  return {
    certificates: certificates.map(dumpCertificate),
    minVersion,
    maxVersion,
    protocols,
    ...(clientValidation !== undefined && { clientValidation: clientValidation.mode }),
  };
}

/** Nothing of its key. */
function dumpCertificate({ source, hostnames, chain }: Certificate): DumpedTls["certificates"][number] {
  try {
    const { validToDate, fingerprint256 } = new X509Certificate(chain);
    return { source, hostnames, notAfter: validToDate.toISOString(), fingerprint256 };
  } catch {
    // Translation lets none through that cannot be read; a dump must not fail over one.
    return { source, hostnames };
  }
}

export function dumpListeners({ statuses, resources }: ConfigurationState): readonly DumpedListener[] {
  const own = statuses.gateways.flatMap(({ namespace, name, listeners }) =>
    listeners.map((listener) => ({ gateway: { namespace, name }, ...dumpDeclared(listener) })),
  );
  const ofSets = statuses.listenerSets.flatMap(({ namespace, name, listeners }) => {
    const set = resources.ListenerSet.find(
      ({ metadata }) => metadata.namespace === namespace && metadata.name === name,
    );
    const parent = set?.spec.parentRef;
    const gateway = { namespace: parent?.namespace ?? namespace, name: parent?.name ?? "" };
    return listeners.map((listener) => ({ gateway, listenerSet: { namespace, name }, ...dumpDeclared(listener) }));
  });
  return [...own, ...ofSets];
}

function dumpDeclared({ name, attachedRoutes, conditions }: ListenerStatus) {
  return { name, attachedRoutes, conditions };
}
