/** Translates a port of a Service to a backend with the ready endpoints of its EndpointSlices. */
import { listSome } from "@gatewayproxy/runtime/bounded-text";
import type { EndpointSlice, SliceEndpoint } from "../../api/endpoint-slice.ts";
import { maxServicePorts, type Service, type ServicePort } from "../../api/service.ts";
import type { UnresolvedReason } from "../../api/status.ts";
import type { Backend, Endpoint } from "../../ir/snapshot.ts";
import type { ResolvedTlsPolicies, ServiceTls } from "./backend-tls.ts";
import { derived } from "@gatewayproxy/runtime/lists";
import { memoised, memoisedWith } from "@gatewayproxy/runtime/memoised";
import type { AddressDenial } from "../context.ts";
import type { Resolution } from "../reference/resolution.ts";
import { type Budget, FairBudget } from "../fair-share.ts";
import { compareText, nameKey } from "../index/object-names.ts";

/** A backend, or why there is none. */
export type BackendResolution =
  | Resolution<Backend, UnresolvedReason>
  /** The reference is valid, but an invalid policy of the Service prevents that it is called. */
  | { readonly kind: "unusable"; readonly message: string };

/**
 * The values of `appProtocol` for servers that only support HTTP/2 (KEP-3726, GEP-1911). Any other port gets HTTP/1.1:
 * `kubernetes.io/ws` starts with it, and the meaning of implementation-specific names is unknown.
 */
const http2Protocols: readonly string[] = ["kubernetes.io/h2c", "grpc"];

/** The TLS of Services, and the budgets of their endpoints. */
export interface ServiceContext extends Pick<ResolvedTlsPolicies, "tlsOf"> {
  /** Returns why the proxy does not connect to an endpoint; such endpoints are left out. */
  readonly addressDenial: AddressDenial;
  /** The budget for endpoints, counted for each port. */
  readonly endpointBudget: Budget;
  /** The budget for reading slices, since a Service may have thousands of ports, each with the same slices. */
  readonly scanBudget: Budget;
}

/** The transport protocols of ports that routes can name. */
export type Transport = "TCP" | "UDP";

/** Returns the ports of a protocol by number; the first one of several. */
const portsOfService = forTransports((transport) =>
  memoised(
    ({ ports }: Service["spec"]): ReadonlyMap<number, ServicePort> =>
      new Map(ports.flatMap((port) => (port.protocol === transport ? [[port.port, port] as const] : [])).reverse()),
  ),
);

/** Returns the `appProtocol` of a TCP port. */
export function appProtocolOf(service: Service | undefined, port: number): string | undefined {
  return service === undefined ? undefined : portsOfService.TCP(service.spec).get(port)?.appProtocol;
}

/** Returns the numbers of a protocol by name; the first one of several. */
const portsOfSlice = forTransports((transport) =>
  memoised(
    ({ ports }: EndpointSlice): ReadonlyMap<string, number | undefined> =>
      new Map(
        ports.flatMap(({ name, port, protocol }) => (protocol === transport ? [[name, port] as const] : [])).reverse(),
      ),
  ),
);

function forTransports<T>(make: (transport: Transport) => T): Readonly<Record<Transport, T>> {
  return { TCP: make("TCP"), UDP: make("UDP") };
}

const noTls: ServiceTls = { kind: "none" };

/** For messages: the protocol is named where it is another one. */
const portList = forTransports((transport) =>
  memoised(({ ports }: Service["spec"]): string =>
    ports.length === 0
      ? "none"
      : listSome(ports.map(({ port, protocol }) => (protocol === transport ? String(port) : `${port}/${protocol}`))),
  ),
);

/** A port of a Service. */
interface NamedPort {
  readonly port: number;
  readonly transport: Transport;
}

/** A resolved port with what it depends on, and what it has taken of the budgets. */
interface KnownPort {
  readonly slices: readonly EndpointSlice[];
  readonly tls: ServiceTls;
  readonly addressDenial: AddressDenial;
  readonly taken: Demand;
  readonly resolution: BackendResolution;
}

/** Numbers of endpoints, and of entries of slices that are read. */
interface Demand {
  readonly endpoints: number;
  readonly entries: number;
}

/**
 * The last resolutions of a Service, by port. Only those of which all endpoints are used: the rules on addresses depend
 * on the addresses of the machine, so that one that is denied now may be permitted later. Each connection is checked
 * again.
 */
const knownPorts = memoised<Service, Map<string, KnownPort>>(() => new Map());

/** Resolves a port of a Service. A backend without a ready endpoint is valid, and responds with 503. */
export function resolveService(
  service: Service,
  named: NamedPort,
  slices: readonly EndpointSlice[],
  context: ServiceContext,
): BackendResolution {
  const { port, transport } = named;
  const name = `Service ${nameKey(service)}`;
  if (service.spec.type === "ExternalName") {
    // It could have any address, including that of the proxy's admin server (CVE-2021-25740). A Backend shows its host.
    const message = `${name} is of type ExternalName, which is not supported; use a Backend`;
    return { kind: "unresolved", reason: "InvalidKind", message };
  }
  const servicePort = portsOfService[transport](service.spec).get(port);
  if (servicePort === undefined) {
    const bound = service.spec.ports.length < maxServicePorts ? "" : `, of which the first ${maxServicePorts} are read`;
    const message = `${name} has no ${transport} port ${port}, it has ${portList[transport](service.spec)}${bound}`;
    return { kind: "unresolved", reason: "BackendNotFound", message };
  }
  // A BackendTLSPolicy does not concern datagrams.
  const tls = transport === "UDP" ? noTls : context.tlsOf(service, servicePort.name);
  if (tls.kind === "rejected") return { kind: "unusable", message: tls.message };
  const { namespace } = service.metadata;
  const { addressDenial, endpointBudget, scanBudget } = context;
  const known = knownPorts(service).get(`${port}/${transport}`);
  const isSame =
    known !== undefined &&
    known.slices === slices &&
    known.addressDenial === addressDenial &&
    isSameTls(known.tls, tls);
  const most = Math.min(maxEndpoints, endpointBudget.left(namespace));
  if (isSame && known.taken.endpoints <= most && known.taken.entries <= scanBudget.left(namespace)) {
    endpointBudget.take(namespace, known.taken.endpoints);
    scanBudget.take(namespace, known.taken.entries);
    return known.resolution;
  }
  const { resolution, taken, isWhole } = resolvePort(service, { servicePort, transport }, slices, {
    ...context,
    tls,
  });
  if (isWhole) knownPorts(service).set(`${port}/${transport}`, { slices, tls, addressDenial, taken, resolution });
  else knownPorts(service).delete(`${port}/${transport}`);
  return resolution;
}

function isSameTls(a: ServiceTls, b: ServiceTls): boolean {
  return a.kind === "tls" && b.kind === "tls" ? a.tls === b.tls : a.kind === b.kind && a.kind === "none";
}

interface PortContext extends ServiceContext {
  readonly tls: Exclude<ServiceTls, { readonly kind: "rejected" }>;
}

/** Resolves a port that exists, and takes its endpoints from the budgets. */
function resolvePort(
  service: Service,
  { servicePort, transport }: ResolvedPort,
  slices: readonly EndpointSlice[],
  { tls, addressDenial, endpointBudget, scanBudget }: PortContext,
): { readonly resolution: BackendResolution; readonly taken: Demand; readonly isWhole: boolean } {
  const name = `Service ${nameKey(service)}`;
  const { namespace, name: serviceName } = service.metadata;
  const key = `Service/${namespace}/${serviceName}:${servicePort.port}`;
  const most = Math.min(maxEndpoints, endpointBudget.left(namespace));
  let entriesRead = 0;
  const { endpoints: all, isWhole: areAllRead } = usableEndpoints(
    { servicePort, transport },
    slices,
    most + 1,
    (entries) => {
      if (entries > scanBudget.left(namespace)) return false;
      scanBudget.take(namespace, entries);
      entriesRead += entries;
      return true;
    },
  );
  const found = all.slice(0, most);
  endpointBudget.take(namespace, found.length);
  const taken = { endpoints: found.length, entries: entriesRead };
  // An EndpointSlice can contain any address (CVE-2021-25740).
  const endpoints = found.filter(({ host, port: at }) => addressDenial(host, at) === undefined);
  const [forbidden] = found;
  if (endpoints.length === 0 && forbidden !== undefined) {
    const denial = addressDenial(forbidden.host, forbidden.port) ?? "";
    const message = `${name} has no permitted endpoint: ${forbidden.host} port ${forbidden.port} ${denial}`;
    return { resolution: { kind: "unresolved", reason: "ForbiddenAddress", message }, taken, isWhole: false };
  }
  const isHttp2 = transport === "TCP" && http2Protocols.includes(servicePort.appProtocol ?? "");
  const resolution: BackendResolution = {
    kind: "resolved",
    ...(all.length > most
      ? { limitation: tooManyEndpoints(service, most, endpointBudget) }
      : !areAllRead && { limitation: tooManyEntries(service, scanBudget) }),
    value: {
      key,
      kind: "Service",
      namespace,
      name: serviceName,
      endpoints,
      ...(isHttp2 && { protocol: "h2" }),
      ...(tls.kind === "tls" && { tls: tls.tls }),
    },
  };
  return { resolution, taken, isWhole: areAllRead && endpoints.length === all.length };
}

function tooManyEndpoints(service: Service, most: number, budget: Budget): string {
  const name = `Service ${nameKey(service)}`;
  if (most === maxEndpoints) return `${name} has more than ${most} ready endpoints, of which ${most} are called`;
  const { namespace } = service.metadata;
  return `${name} has more ready endpoints than the ${most} that are called: namespace ${namespace} has a share of ${budget.share(namespace)} of the ${budget.capacity} endpoints that are called, each port of a Service counted`;
}

function tooManyEntries(service: Service, budget: Budget): string {
  const { namespace } = service.metadata;
  return `Service ${nameKey(service)} has more endpoints than are read: namespace ${namespace} has a share of ${budget.share(namespace)} of the ${budget.capacity} entries of EndpointSlices that are read, each port of a Service counted`;
}

/**
 * Maximum number of endpoints of a backend, since each has its own state in every worker. Those of the first slices by
 * name are used.
 */
export const maxEndpoints = 1_000;

/** An endpoint of a port takes some 0.25 KB of the heap of each worker until it is called. */
const maxEndpointsOfAll = 160_000;
/** An entry takes some 200 ns. */
const maxEntriesOfAll = 4_000_000;

/** The budgets of a translation. */
export type ServiceBudgets = Pick<ServiceContext, "endpointBudget" | "scanBudget">;

/** Returns budgets that namespaces share. */
export function newServiceBudgets(): ServiceBudgets {
  return { endpointBudget: new FairBudget(maxEndpointsOfAll), scanBudget: new FairBudget(maxEntriesOfAll) };
}

/** The endpoints and entries of slices that are read. */
interface Demand {
  readonly endpoints: number;
  readonly entries: number;
}

/** Whether all ports of all Services together are within the budgets. */
export function areWithinBudgets(
  slices: ReadonlyMap<string, readonly EndpointSlice[]>,
  services: ReadonlyMap<string, Service>,
): boolean {
  // Few clusters are so large that each Service must be counted with its own number of ports.
  const all = demandOfAll([...slices.values()]);
  const ports = mostPorts(services);
  const isSmall = ports * all.endpoints <= maxEndpointsOfAll && ports * all.entries <= maxEntriesOfAll;
  return isSmall || isWithinBudgets(slices, services);
}

/**
 * Infinite if the ports of a Service cannot be read, which is an error of this Service where it is used
 * (`containment.ts`).
 */
const mostPorts = memoised((services: ReadonlyMap<string, Service>): number => {
  let most = 0;
  try {
    for (const { spec } of services.values()) most = Math.max(most, spec.ports.length);
  } catch {
    return Infinity;
  }
  return most;
});

/** The sum of the maximum demands of a port of each Service, by its slices. */
const demandOfAll = derived<readonly EndpointSlice[], Demand>(
  (all) => sumOf(all),
  (before, { removed, added }) => {
    const [less, more] = [sumOf(removed), sumOf(added)];
    return {
      endpoints: before.endpoints - less.endpoints + more.endpoints,
      entries: before.entries - less.entries + more.entries,
    };
  },
);

function sumOf(all: readonly (readonly EndpointSlice[])[]): Demand {
  let [endpoints, entries] = [0, 0];
  for (const slices of all) {
    const wanted = wantedOf(slices);
    endpoints += wanted.endpoints;
    entries += wanted.entries;
  }
  return { endpoints, entries };
}

const isWithinBudgets = memoisedWith(
  (slices: ReadonlyMap<string, readonly EndpointSlice[]>, services: ReadonlyMap<string, Service>): boolean => {
    let [endpoints, entries] = [0, 0];
    for (const [name, ofService] of slices) {
      const ports = services.get(name)?.spec.ports.length ?? 0;
      const wanted = wantedOf(ofService);
      endpoints += ports * wanted.endpoints;
      entries += ports * wanted.entries;
    }
    return endpoints <= maxEndpointsOfAll && entries <= maxEntriesOfAll;
  },
);

/** The slices of a Service without any. */
export const noSlices: readonly EndpointSlice[] = [];

/** Returns the maximum demand of a port of a Service with these slices. */
export const wantedOf = memoised((slices: readonly EndpointSlice[]): Demand => {
  const endpoints = slices.reduce((sum, slice) => sum + slice.endpoints.length, 0);
  // The slices are read twice if no endpoint is ready.
  return { endpoints: Math.min(endpoints, maxEndpoints), entries: 2 * (slices.length + endpoints) };
});

interface FoundEndpoints {
  readonly endpoints: readonly Endpoint[];
  /** Whether all slices were read, or enough of them. */
  readonly isWhole: boolean;
}

/** A port of a Service with its transport protocol. */
interface ResolvedPort {
  readonly servicePort: ServicePort;
  readonly transport: Transport;
}

/** Whether a slice with so many entries may be read. */
type MayRead = (entries: number) => boolean;

/**
 * Returns the ready endpoints. If there is none, it returns terminating endpoints that still serve (`serving`,
 * KEP-1672), so that the last pods of a rollout are used.
 */
function usableEndpoints(
  port: ResolvedPort,
  slices: readonly EndpointSlice[],
  most: number,
  mayRead: MayRead,
): FoundEndpoints {
  const ready = endpointsIn("ready", port, slices, most, mayRead);
  return ready.endpoints.length > 0 ? ready : endpointsIn("serving", port, slices, most, mayRead);
}

/**
 * Returns the endpoints in a state, sorted by address and port, each once, since slices may overlap while their
 * controller moves endpoints. A port of a slice belongs to the port of the Service with the same name, which is empty
 * if there is only one.
 */
function endpointsIn(
  wanted: SliceEndpoint["state"],
  { servicePort, transport }: ResolvedPort,
  slices: readonly EndpointSlice[],
  most: number,
  mayRead: MayRead,
): FoundEndpoints {
  const byAddress = new Map<string, Endpoint>();
  let isWhole = true;
  for (const slice of slices) {
    if (byAddress.size >= most) break;
    // Slices without the port count too, since they have been read.
    isWhole = mayRead(1 + slice.endpoints.length);
    if (!isWhole) break;
    const port = portsOfSlice[transport](slice).get(servicePort.name ?? "");
    if (port === undefined || slice.addressType === "FQDN") continue;
    for (const { state, name, host } of slice.endpoints) {
      if (byAddress.size >= most) break;
      if (state !== wanted) continue;
      const key = `${host} ${port}`;
      if (!byAddress.has(key)) byAddress.set(key, { name, host, port });
    }
  }
  const endpoints = [...byAddress].sort(([a], [b]) => compareText(a, b)).map(([, endpoint]) => endpoint);
  return { endpoints, isWhole };
}
