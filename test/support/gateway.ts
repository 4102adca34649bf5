/**
 * A gateway in this process, on real sockets and a fake clock. Manifests are parsed, translated and compiled as in
 * production, only without threads and files. Everything is closed when the test ends; a connection that is left open
 * then fails the test.
 */
import { randomUUID } from "node:crypto";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { onTestFinished } from "vitest";
import { parseManifests } from "../../proxy/src/api/parse-manifests.ts";
import { CounterTable, createCounters } from "../../proxy/src/policy/ratelimit/counter-table.ts";
import { DataPlane, type DataPlaneObserver, type DataPlaneOptions } from "../../proxy/src/data-plane/data-plane.ts";
import type { ShedReason } from "../../proxy/src/listen/client-connections.ts";
import type { RequestRecord } from "../../proxy/src/telemetry/request-record.ts";
import { noCredentials } from "../../proxy/src/translate/tls/credentials.ts";
import { hostEnvironment } from "../../proxy/src/translate/environment.ts";
import type { TranslateOptions } from "../../proxy/src/translate/context.ts";
import { type Translation, translate } from "../../proxy/src/translate/translate.ts";

export interface TestGateway {
  readonly clock: FakeClock;
  /** The records of all ended requests, in the order of their ends. */
  readonly records: readonly RequestRecord[];
  /** Internal errors of the proxy. They fail the test unless it expects them. */
  readonly internalErrors: readonly unknown[];
  /** Connections that were closed because of the memory bound, in that order. */
  readonly shed: readonly ShedConnection[];
  /** `http://127.0.0.1:PORT` of the listener on the Gateway's port 80, or the one given. */
  url(port?: number): string;
  /** Replaces the manifests. */
  apply(manifests: string): Promise<Translation>;
  /** Resolves with the record of the next request that ends. */
  nextRecord(): Promise<RequestRecord>;
  readonly dataPlane: DataPlane;
}

export interface ShedConnection {
  readonly reason: ShedReason;
  readonly client: string;
}

export interface TestGatewayOptions
  extends Partial<
    Pick<
      DataPlaneOptions,
      | "upstream"
      | "listeningSockets"
      | "bodies"
      | "clientMemory"
      | "resolveName"
      | "addresses"
      | "random"
      | "requestRules"
      | "streamIdleTimeoutMs"
      | "contendedStreamIdleTimeoutMs"
      | "upgradeProtocols"
      | "trustedHops"
      | "ipv6PrefixLength"
      | "abandonedResponses"
      | "tokens"
      | "createRequestId"
      | "globalLimits"
      | "requestLog"
      | "upstreamLog"
      | "connectionLog"
      | "tracing"
    >
  > {
  /** Default false. */
  readonly expectsProxyHeader?: boolean;
  /** Replaces callbacks of the test gateway. */
  readonly observer?: Partial<DataPlaneObserver>;
  /** Internal errors of the proxy do not fail the test. Default false. */
  readonly expectsInternalErrors?: boolean;
  /** Serves the valid part of manifests that have problems in their text. Default false. */
  readonly expectsProblems?: boolean;
  /** Absent: manifests may name every address. */
  readonly addressDenial?: NonNullable<TranslateOptions["addressDenial"]>;
  /** Absent: Closed. */
  readonly refusedPolicies?: NonNullable<TranslateOptions["refusedPolicies"]>;
}

/** Has Gateways that name no address listen on 127.0.0.1. */
export const onLoopback: TranslateOptions = { environment: { ...hostEnvironment, defaultAddress: "127.0.0.1" } };

/** Parses, translates and serves `manifests`, which must have no problem unless one is expected. */
export async function startGateway(manifests: string, options: TestGatewayOptions = {}): Promise<TestGateway> {
  const clock = new FakeClock();
  const records: RequestRecord[] = [];
  const internalErrors: unknown[] = [];
  const shed: ShedConnection[] = [];
  const awaiting: ((record: RequestRecord) => void)[] = [];
  let generation = 0;
  let credentials = noCredentials;
  const {
    expectsProxyHeader = false,
    expectsProblems = false,
    expectsInternalErrors = false,
    listeningSockets = 1,
    addressDenial,
    refusedPolicies,
    observer,
    ...upstream
  } = options;
  const dataPlane = new DataPlane({
    clock,
    random: () => 0,
    createRequestId: randomUUID,
    ...upstream,
    counters: new CounterTable(createCounters(1_024, 2), 1, clock),
    reusePort: listeningSockets > 1,
    listeningSockets,
    expectsProxyHeader,
    portOf: () => 0,
    observer: {
      connectionOpened: () => undefined,
      connectionClosed: () => undefined,
      connectionShed: (reason, client) => shed.push({ reason, client }),
      requestStarted: () => undefined,
      requestEnded(_bind, record) {
        records.push(record);
        for (const resolve of awaiting.splice(0)) resolve(record);
      },
      denied: () => undefined,
      mirrored: () => undefined,
      ...observer,
    },
    faulted: (error) => internalErrors.push(error),
  });

  async function apply(text: string): Promise<Translation> {
    const parsed = parseManifests([{ path: "test.yaml", text }]);
    if (parsed.problems.length > 0 && !expectsProblems) throw new Error(JSON.stringify(parsed.problems, undefined, 2));
    const translation = translate(parsed.resources, {
      ...onLoopback,
      before: credentials,
      ...(addressDenial && { addressDenial }),
      ...(refusedPolicies && { refusedPolicies }),
    });
    credentials = translation.credentials;
    const failures = await dataPlane.apply({ generation: ++generation, ...translation });
    if (failures.length > 0) throw new Error(JSON.stringify(failures));
    return translation;
  }

  onTestFinished(async () => {
    const drained = dataPlane.drain();
    dataPlane.destroy();
    await drained;
    if (internalErrors.length > 0 && !expectsInternalErrors) {
      throw new AggregateError(internalErrors, "internal errors of the proxy");
    }
  });
  await apply(manifests);
  return {
    clock,
    records,
    internalErrors,
    shed,
    dataPlane,
    apply,
    url: (port = 80) => {
      const listening = dataPlane.portOf("127.0.0.1", port);
      if (listening === undefined) throw new Error(`no listener on port ${port}`);
      return `http://127.0.0.1:${listening}`;
    },
    nextRecord: () => new Promise((resolve) => awaiting.push(resolve)),
  };
}

/** A Gateway named `web` with one HTTP listener `http` on 127.0.0.1. */
export function gatewayManifest(port = 80): string {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web, namespace: default }
spec:
  gatewayClassName: gateway-proxy
  addresses: [{ type: IPAddress, value: 127.0.0.1 }]
  listeners:
    - { name: http, protocol: HTTP, port: ${port} }
`;
}

/** A Backend for a server on this machine. */
export function backendManifest(name: string, port: number): string {
  return `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: default }
spec: { static: { host: 127.0.0.1, port: ${port} } }
`;
}

/** A Service `name` with port 80 whose ready endpoints are these ports of 127.0.0.1; `port` adds fields to its port. */
export function serviceManifest(name: string, ports: readonly number[], port = ""): string {
  return manifests(
    `
apiVersion: v1
kind: Service
metadata: { name: ${name}, namespace: default }
spec: { ports: [{ name: main, port: 80${port === "" ? "" : `, ${port}`} }] }
`,
    ...ports.map(
      (endpoint, index) => `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}-${index}, namespace: default, labels: { kubernetes.io/service-name: ${name} } }
addressType: IPv4
ports: [{ name: main, port: ${endpoint} }]
endpoints: [{ addresses: [127.0.0.1], targetRef: { kind: Pod, name: ${name}-${index} } }]
`,
    ),
  );
}

/** An HTTPRoute on the Gateway `web`; `rules` is flow or block YAML of the list, `spec` adds fields. */
export function routeManifest(name: string, rules: readonly string[], spec = ""): string {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: ${name}, namespace: default }
spec:
  parentRefs: [{ name: web }]
  ${spec}
  rules:
${rules.map((rule) => `    - ${rule}`).join("\n")}
`;
}

/** A GRPCRoute on the Gateway `web`; arguments as those of `routeManifest`. */
export function grpcRouteManifest(name: string, rules: readonly string[], spec = ""): string {
  return routeManifest(name, rules, spec).replace("kind: HTTPRoute", "kind: GRPCRoute");
}

/** A rule's reference to a Backend, as flow YAML. */
export function backendRef(name: string, weight = 1): string {
  return `{ group: gatewayproxy.dev, kind: Backend, name: ${name}, weight: ${weight} }`;
}

/** A ProxyPolicy with local limits on one target. @param fields further ones of `rateLimit`, as flow YAML. */
export function policyManifest(
  name: string,
  target: string,
  local: readonly string[],
  fields: readonly string[] = [],
): string {
  return `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: ${name}, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, ${target} }]
  traffic:
    rateLimit:
      local:
${local.map((entry) => `        - ${entry}`).join("\n")}
${fields.map((field) => `      ${field}\n`).join("")}`;
}

/** One stream of documents. */
export function manifests(...documents: readonly string[]): string {
  return documents.join("---\n");
}
