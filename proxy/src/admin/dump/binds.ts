/** Dumps binds and listeners as served, and listeners as declared. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { X509Certificate } from "node:crypto";
import { expiryOf } from "@gatewayproxy/runtime/certificate-expiry";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import { renderSocketAddress } from "@gatewayproxy/runtime/setting-kinds";
import type { DumpedBind, DumpedListener } from "@gatewayproxy/admin-api/config-dump";
import type { ListenerStatus } from "../../api/status.ts";
import type { Certificate, Listener, ListenerTls, StreamListener } from "../../ir/snapshot.ts";
import type { ConfigurationState } from "./input.ts";

/** Returns the binds of the snapshot with their listeners. `fault` is the reason why a bind is not open. */
export function* dumpBinds({ snapshot, failures }: ConfigurationState): Steps<readonly DumpedBind[]> {
  const binds: DumpedBind[] = [];
  for (const { address, port, transport, listeners, streams = [] } of snapshot.binds) {
    const failure = failures.find(
      (candidate) => candidate.address === address && candidate.port === port && candidate.transport === transport,
    );
    binds.push({
      key: renderSocketAddress({ host: address ?? "*", port }) + (transport === "UDP" ? "/udp" : ""),
      ...(address !== undefined && { address }),
      port,
      ...(transport !== undefined && { transport }),
      isOpen: failure === undefined,
      ...(failure !== undefined && { fault: failure.message }),
      listeners: yield* mapInSteps([...listeners, ...streams], dumpServedListener),
    });
  }
  return binds;
}

function dumpServedListener(listener: Listener | StreamListener): DumpedBind["listeners"][number] {
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

/** Dumps a certificate without its key. */
function dumpCertificate({ source, hostnames, chain }: Certificate): DumpedTls["certificates"][number] {
  try {
    const certificate = new X509Certificate(chain);
    const { fingerprint256 } = certificate;
    const notAfter = expiryOf(certificate)?.toISOString();
    return { source, hostnames, ...(notAfter !== undefined && { notAfter }), fingerprint256 };
  } catch {
    // The translation rejects unreadable certificates; but a dump must not fail in any case.
    return { source, hostnames };
  }
}

/** Returns the listeners of all Gateways and ListenerSets with their conditions, served or not. */
export function* dumpListeners({ statuses, resources }: ConfigurationState): Steps<readonly DumpedListener[]> {
  const ofGateways = yield* mapInSteps(statuses.gateways, ({ namespace, name, listeners }) =>
    listeners.map((listener) => ({ gateway: { namespace, name }, ...dumpDeclared(listener) })),
  );
  const sets = new Map(resources.ListenerSet.map((set) => [objectKey(set.metadata), set]));
  const ofSets = yield* mapInSteps(statuses.listenerSets, ({ namespace, name, listeners }) => {
    const parent = sets.get(objectKey({ namespace, name }))?.spec.parentRef;
    const gateway = { namespace: parent?.namespace ?? namespace, name: parent?.name ?? "" };
    return listeners.map((listener) => ({ gateway, listenerSet: { namespace, name }, ...dumpDeclared(listener) }));
  });
  return [...ofGateways.flat(), ...ofSets.flat()];
}

function dumpDeclared({ name, attachedRoutes, conditions }: ListenerStatus) {
  return { name, attachedRoutes, conditions };
}
