/**
 * Statuses as Kubernetes shows them and file mode logs them: conditions with their reasons, as closed unions. Reasons
 * are those of the Gateway API (v1.7), except where marked as specific to this gateway. Times are added by
 * `status/conditions.ts`.
 */
import { type RouteKind, routeKinds } from "@gatewayproxy/runtime/route-key";
import type { ParentRef } from "./http-route.ts";

/** A condition (`metav1.Condition`) without its time. */
export interface Condition<Type extends string = string, Reason extends string = string> {
  readonly type: Type;
  readonly status: "True" | "False" | "Unknown";
  readonly reason: Reason;
  /** The message for users; it lists all problems of the reason. */
  readonly message: string;
  /** `metadata.generation` of the object that was validated; absent in file mode. */
  readonly observedGeneration?: number;
}

/** Whether a condition is true. */
export function isTrue(conditions: readonly Condition[], type: string): boolean {
  return conditions.some((condition) => condition.type === type && condition.status === "True");
}

/** A union of conditions, built from the reasons of each type. */
type ConditionsOf<Reasons extends Readonly<Record<string, string>>> = {
  [Type in keyof Reasons & string]: Condition<Type, Reasons[Type]>;
}[keyof Reasons & string];

/** Conditions of a GatewayClass. */
export type GatewayClassCondition = ConditionsOf<{
  Accepted: "Accepted" | "InvalidParameters";
  /** In a cluster: whether the CustomResourceDefinitions of the Gateway API have a supported version. */
  SupportedVersion: "SupportedVersion" | "UnsupportedVersion";
}>;

/** Conditions of a Gateway. */
export type GatewayCondition = ConditionsOf<{
  Accepted:
    | "Accepted"
    | "Invalid"
    | "ListenersNotValid"
    | "UnsupportedAddress"
    | "InvalidParameters"
    /** Specific to this gateway: the Gateways of a namespace exceed its share of what the controller validates. */
    | "TooManyListenersInAll";
  Programmed:
    | "Programmed"
    | "Invalid"
    | "AddressNotUsable"
    /** In a dump of a proxy: none of its ports could be opened. */
    | "Pending"
    /** In a cluster: its Service has no address yet, or none of its pods is ready. */
    | "AddressNotAssigned"
    | "NoResources";
  /** Present where the Gateway refers to a client certificate for its backends. */
  ResolvedRefs: "ResolvedRefs" | "InvalidClientCertificateRef" | "RefNotPermitted";
  /** Present only when true: clients are accepted whatever certificate they present. */
  InsecureFrontendValidationMode: "ConfigurationChanged";
  /**
   * Specific to this gateway; present where the proxies have volumes: whether they keep the counters of long windows on
   * them. VolumesUnchanged: a field that the parameters change is immutable.
   */
  PersistentCounters: "Persistent" | "VolumesUnchanged" | "Pending";
}>;

/** Conditions of a ListenerSet. */
export type ListenerSetCondition = ConditionsOf<{
  Accepted:
    | "Accepted"
    | "Invalid"
    | "NotAllowed"
    | "ParentNotAccepted"
    | "ListenersNotValid"
    /**
     * Specific to this gateway: the ListenerSets of a namespace exceed its share of what the proxies of the Gateway
     * serve.
     */
    | "TooManyListeners"
    /** Specific to this gateway: they exceed its share of what the controller validates for all Gateways. */
    | "TooManyListenersInAll";
  Programmed:
    | "Programmed"
    | "Invalid"
    | "NotAllowed"
    | "ParentNotProgrammed"
    | "ListenersNotValid"
    | "TooManyListeners"
    | "TooManyListenersInAll";
}>;

/** The reason of a conflict between two listeners of one port: the same host name, or different protocols. */
export type ConflictReason = "HostnameConflict" | "ProtocolConflict";

/** Reasons for which a listener is not accepted. */
export type ListenerRejection =
  | "PortUnavailable"
  | "UnsupportedProtocol"
  | "UnsupportedValue"
  | "NoValidCACertificate"
  | ConflictReason;

/** Reasons for which a reference of a listener is not resolved. */
export type ListenerUnresolved =
  | "InvalidCertificateRef"
  | "InvalidCACertificateRef"
  | "InvalidCACertificateKind"
  | "InvalidRouteKinds"
  | "RefNotPermitted";

/** Conditions of a listener. */
export type ListenerCondition = ConditionsOf<{
  Accepted: "Accepted" | ListenerRejection;
  /** Pending: in a cluster, the Gateway is not programmed; in a dump of a proxy, the port could not be opened. */
  Programmed: "Programmed" | "Invalid" | "Pending" | ConflictReason;
  ResolvedRefs: "ResolvedRefs" | ListenerUnresolved;
  Conflicted: "NoConflicts" | ConflictReason;
  /** Present only when true: the host names of another TLS listener of the port overlap. */
  OverlappingTLSConfig: "OverlappingHostnames";
}>;

/** Reasons for which a parent does not accept a route. */
export type NotAcceptedReason =
  | "NotAllowedByListeners"
  | "NoMatchingListenerHostname"
  | "NoMatchingParent"
  /**
   * Specific to this gateway: the listener has a route of the other kind for some of the host names (GRPCRoute,
   * HTTPRoute).
   */
  | "RouteKindConflict"
  /**
   * Specific to this gateway: the routes of a namespace attach to more listeners than the namespace's share of what the
   * proxies of the Gateway serve.
   */
  | "TooManyAttachments"
  /**
   * Specific to this gateway: they attach to more listeners of all Gateways than the namespace's share of what the
   * controller processes.
   */
  | "TooManyAttachmentsInAll"
  | InvalidRuleReason;

/** Reasons for which a rule of a route is not served. */
export type InvalidRuleReason = "UnsupportedValue" | "IncompatibleFilters";

/** Reasons for which a backend of a rule is not resolved. Its share of the traffic gets a 500 response. */
export type UnresolvedReason =
  | "RefNotPermitted"
  | "InvalidKind"
  | "BackendNotFound"
  | "UnsupportedProtocol"
  | "ForbiddenAddress";

/** Conditions of a route at one parent. */
export type RouteCondition = ConditionsOf<{
  Accepted: "Accepted" | NotAcceptedReason;
  ResolvedRefs: "ResolvedRefs" | UnresolvedReason;
  /** Present only when true: some rules are served and some are not. */
  PartiallyInvalid: "UnsupportedValue";
  /** Specific to this gateway; present only when true: no request can reach any rule of the route. */
  Shadowed: ConflictDecision;
  /**
   * Specific to this gateway; present only when true: other rules get some of the requests that rules of the route
   * match.
   */
  PartiallyShadowed: ConflictDecision;
}>;

/** The criterion that gives one rule precedence over another that matches the same requests. */
export type ConflictDecision =
  | "OlderRoute"
  | "NameOrder"
  | "RuleOrder"
  | "MoreSpecificHostname"
  | "MoreSpecificListener";

/** Reasons for which a BackendTLSPolicy is not accepted. */
export type BackendTlsRejection = "Conflicted" | "TargetNotFound" | "NoValidCACertificate" | "Invalid";

/** Reasons for which a certificate authority reference of a BackendTLSPolicy is not resolved. */
export type BackendTlsUnresolved = "InvalidCACertificateRef" | "InvalidKind";

/** Conditions of a BackendTLSPolicy at one ancestor. */
export type BackendTlsCondition = ConditionsOf<{
  Accepted: "Accepted" | BackendTlsRejection;
  ResolvedRefs: "ResolvedRefs" | BackendTlsUnresolved;
}>;

/** Conditions of a ProxyPolicy at one target. */
export type PolicyCondition = ConditionsOf<{
  Accepted: "Valid" | "PartiallyValid" | "Invalid";
  /**
   * Shadowed: no request can reach the target. NotApplicable: the policy limits requests, and the target has
   * connections, or the reverse.
   */
  Attached: "Attached" | "TargetNotFound" | "Pending" | "TooManyLimits" | "Shadowed" | "NotApplicable";
  /** Present only when true: counters of windows of days or longer end with the proxy. */
  VolatileCounters: "NoStateDirectory";
}>;

/** Conditions of a Backend. */
export type BackendCondition = ConditionsOf<{
  Accepted:
    | "Accepted"
    | "Invalid"
    | "InvalidSecretRef"
    | "ForbiddenAddress"
    | "InvalidProvider"
    | "IncompatibleProviders";
}>;

/** Status of a GatewayClass. */
export interface GatewayClassStatus {
  readonly name: string;
  readonly conditions: readonly GatewayClassCondition[];
}

/** Status of a Gateway. */
export interface GatewayStatus {
  readonly namespace: string;
  readonly name: string;
  readonly conditions: readonly GatewayCondition[];
  readonly listeners: readonly ListenerStatus[];
  /** The number of accepted ListenerSets; absent where the Gateway allows none. */
  readonly attachedListenerSets?: number;
}

/** Status of a ListenerSet. */
export interface ListenerSetStatus {
  readonly namespace: string;
  readonly name: string;
  readonly conditions: readonly ListenerSetCondition[];
  /** Empty where the Gateway does not allow the set to attach. */
  readonly listeners: readonly ListenerStatus[];
}

/** Status of a listener of a Gateway or ListenerSet. */
export interface ListenerStatus {
  readonly name: string;
  readonly supportedKinds: readonly { readonly group: string; readonly kind: string }[];
  /** The number of routes that this listener has accepted. */
  readonly attachedRoutes: number;
  readonly conditions: readonly ListenerCondition[];
}

/** Status of a route of any kind. */
export interface RouteStatus {
  readonly namespace: string;
  readonly name: string;
  /** One per parentRef that names a Gateway of this controller, or a ListenerSet of one. */
  readonly parents: readonly ParentStatus[];
}

/** Status of a route at one parent (Gateway API `RouteParentStatus`). */
export interface ParentStatus {
  readonly parentRef: ParentRef;
  readonly controllerName: string;
  readonly conditions: readonly RouteCondition[];
}

/** Status of a ProxyPolicy. */
export interface PolicyStatus {
  readonly namespace: string;
  readonly name: string;
  /** One per targetRef, in its order. */
  readonly ancestors: readonly AncestorStatus[];
}

/** Status of a BackendTLSPolicy. */
export interface BackendTlsPolicyStatus {
  readonly namespace: string;
  readonly name: string;
  /** One per Gateway with a route to a Service of the policy, sorted by namespace and name; at most 16. */
  readonly ancestors: readonly AncestorStatus<BackendTlsCondition>[];
}

/** Status of a Backend. */
export interface BackendStatus {
  readonly namespace: string;
  readonly name: string;
  readonly conditions: readonly BackendCondition[];
}

/** Status of a policy at one target (Gateway API `PolicyAncestorStatus`). */
export interface AncestorStatus<C extends Condition = PolicyCondition> {
  readonly ancestorRef: {
    readonly group: string;
    readonly kind: string;
    readonly namespace: string;
    readonly name: string;
    readonly sectionName?: string;
  };
  readonly controllerName: string;
  readonly conditions: readonly C[];
}

/** Statuses of all objects of this controller, by kind, each list sorted by namespace and name. */
export interface Statuses {
  readonly gatewayClasses: readonly GatewayClassStatus[];
  readonly gateways: readonly GatewayStatus[];
  readonly listenerSets: readonly ListenerSetStatus[];
  readonly httpRoutes: readonly RouteStatus[];
  readonly grpcRoutes: readonly RouteStatus[];
  readonly tlsRoutes: readonly RouteStatus[];
  readonly tcpRoutes: readonly RouteStatus[];
  readonly udpRoutes: readonly RouteStatus[];
  readonly backendTlsPolicies: readonly BackendTlsPolicyStatus[];
  readonly proxyPolicies: readonly PolicyStatus[];
  readonly backends: readonly BackendStatus[];
}

/** The list of `Statuses` for each kind of routes. */
export const routeLists = {
  HTTPRoute: "httpRoutes",
  GRPCRoute: "grpcRoutes",
  TLSRoute: "tlsRoutes",
  TCPRoute: "tcpRoutes",
  UDPRoute: "udpRoutes",
} as const satisfies Readonly<Record<RouteKind, keyof Statuses>>;

/** The statuses of routes of all kinds. */
export type RouteStatuses = Pick<Statuses, (typeof routeLists)[RouteKind]>;

/** Yields the status of each route with its kind. */
export function* routeStatusesIn(
  statuses: RouteStatuses,
): Generator<readonly [kind: RouteKind, status: RouteStatus], undefined, undefined> {
  for (const kind of routeKinds) for (const status of statuses[routeLists[kind]]) yield [kind, status];
}
