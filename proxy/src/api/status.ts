/**
 * Status as Kubernetes shows it and as file mode logs it: conditions with their reasons, as closed unions. Reasons are
 * the Gateway API's (v1.6); ProxyPolicy's are ours. Times are not known here: `status/conditions.ts` adds them.
 */
import type { ParentRef } from "./http-route.ts";

export interface Condition<Type extends string = string, Reason extends string = string> {
  readonly type: Type;
  readonly status: "True" | "False" | "Unknown";
  readonly reason: Reason;
  /** One sentence for people; all faults of a kind in one. */
  readonly message: string;
  /** `metadata.generation` of the object that was judged; absent in file mode. */
  readonly observedGeneration?: number;
}

/** A union of conditions from the reasons of each type. */
type ConditionsOf<Reasons extends Readonly<Record<string, string>>> = {
  [Type in keyof Reasons & string]: Condition<Type, Reasons[Type]>;
}[keyof Reasons & string];

export type GatewayClassCondition = ConditionsOf<{ Accepted: "Accepted" | "InvalidParameters" }>;

export type GatewayCondition = ConditionsOf<{
  Accepted: "Accepted" | "Invalid" | "ListenersNotValid" | "UnsupportedAddress" | "InvalidParameters";
  Programmed:
    | "Programmed"
    | "Invalid"
    | "AddressNotUsable"
    /** In a dump of a proxy: it could open none of its ports. */
    | "Pending"
    /** In a cluster: its Service has no address yet, or none of its pods is ready. */
    | "AddressNotAssigned"
    | "NoResources";
  /** Present where the Gateway refers to a certificate for its backends. */
  ResolvedRefs: "ResolvedRefs" | "InvalidClientCertificateRef" | "RefNotPermitted";
  /** Present only when true: clients are taken whatever certificate they show. */
  InsecureFrontendValidationMode: "ConfigurationChanged";
}>;

export type ListenerSetCondition = ConditionsOf<{
  Accepted: "Accepted" | "Invalid" | "NotAllowed" | "ParentNotAccepted" | "ListenersNotValid";
  Programmed: "Programmed" | "Invalid" | "NotAllowed" | "ParentNotProgrammed" | "ListenersNotValid";
}>;

/** A listener that shares its port with another of the same host name, or of another protocol. */
export type ConflictReason = "HostnameConflict" | "ProtocolConflict";

/** Why a listener is not accepted. */
export type ListenerRefusal =
  | "PortUnavailable"
  | "UnsupportedProtocol"
  | "UnsupportedValue"
  | "NoValidCACertificate"
  | ConflictReason;

/** Why something that a listener refers to cannot be used. */
export type ListenerUnresolved =
  | "InvalidCertificateRef"
  | "InvalidCACertificateRef"
  | "InvalidCACertificateKind"
  | "InvalidRouteKinds"
  | "RefNotPermitted";

export type ListenerCondition = ConditionsOf<{
  Accepted: "Accepted" | ListenerRefusal;
  /** Pending: in a cluster, where its Gateway is not programmed; in a dump of a proxy, where its port could not be opened. */
  Programmed: "Programmed" | "Invalid" | "Pending" | ConflictReason;
  ResolvedRefs: "ResolvedRefs" | ListenerUnresolved;
  Conflicted: "NoConflicts" | ConflictReason;
  /** Present only when true: another TLS listener of the port has some of its hosts. */
  OverlappingTLSConfig: "OverlappingHostnames";
}>;

/** Why a route's parent does not take it. */
export type NotAcceptedReason =
  | "NotAllowedByListeners"
  | "NoMatchingListenerHostname"
  | "NoMatchingParent"
  /** Ours: the routes of a namespace are at more listeners than their share of what the proxies of the Gateway serve. */
  | "TooManyAttachments"
  /** Ours: they are at more listeners of all Gateways than their share of what the controller judges. */
  | "TooManyAttachmentsInAll"
  | InvalidRuleReason;

/** Why a rule of a route is not served. */
export type InvalidRuleReason = "UnsupportedValue" | "IncompatibleFilters";

/** Why a rule's backend cannot be used; its share of the traffic is answered with 500. */
export type UnresolvedReason = "RefNotPermitted" | "InvalidKind" | "BackendNotFound" | "ForbiddenAddress";

export type RouteCondition = ConditionsOf<{
  Accepted: "Accepted" | NotAcceptedReason;
  ResolvedRefs: "ResolvedRefs" | UnresolvedReason;
  /** Present only when true: some rules are served and some are not. */
  PartiallyInvalid: "UnsupportedValue";
  /** Ours; present only when true: no request can reach any rule of the route. */
  Shadowed: ConflictDecision;
  /** Ours; present only when true: other rules get some requests that rules of the route match. */
  PartiallyShadowed: ConflictDecision;
}>;

/** What puts one rule before another that matches the same requests. */
export type ConflictDecision =
  | "OlderRoute"
  | "NameOrder"
  | "RuleOrder"
  | "MoreSpecificHostname"
  | "MoreSpecificListener";

/** Why a BackendTLSPolicy is not accepted. */
export type BackendTlsRefusal = "Conflicted" | "TargetNotFound" | "NoValidCACertificate" | "Invalid";

/** Why an authority that a BackendTLSPolicy refers to cannot be used. */
export type BackendTlsUnresolved = "InvalidCACertificateRef" | "InvalidKind";

export type BackendTlsCondition = ConditionsOf<{
  Accepted: "Accepted" | BackendTlsRefusal;
  ResolvedRefs: "ResolvedRefs" | BackendTlsUnresolved;
}>;

export type PolicyCondition = ConditionsOf<{
  Accepted: "Valid" | "PartiallyValid" | "Invalid";
  /** Shadowed: no request can reach the target. */
  Attached: "Attached" | "TargetNotFound" | "Pending" | "TooManyLimits" | "Shadowed";
}>;

export type BackendCondition = ConditionsOf<{
  Accepted: "Accepted" | "Invalid" | "InvalidSecretRef" | "ForbiddenAddress";
}>;

export interface GatewayClassStatus {
  readonly name: string;
  readonly conditions: readonly GatewayClassCondition[];
}

export interface GatewayStatus {
  readonly namespace: string;
  readonly name: string;
  readonly conditions: readonly GatewayCondition[];
  readonly listeners: readonly ListenerStatus[];
  /** ListenerSets that are accepted; absent where the Gateway allows none. */
  readonly attachedListenerSets?: number;
}

export interface ListenerSetStatus {
  readonly namespace: string;
  readonly name: string;
  readonly conditions: readonly ListenerSetCondition[];
  /** Empty where the set is not allowed to attach. */
  readonly listeners: readonly ListenerStatus[];
}

export interface ListenerStatus {
  readonly name: string;
  readonly supportedKinds: readonly { readonly group: string; readonly kind: string }[];
  /** Routes that this listener has accepted. */
  readonly attachedRoutes: number;
  readonly conditions: readonly ListenerCondition[];
}

export interface RouteStatus {
  readonly namespace: string;
  readonly name: string;
  /** One per parentRef that names a Gateway of ours, or a ListenerSet of one. */
  readonly parents: readonly ParentStatus[];
}

export interface ParentStatus {
  readonly parentRef: ParentRef;
  readonly controllerName: string;
  readonly conditions: readonly RouteCondition[];
}

export interface PolicyStatus {
  readonly namespace: string;
  readonly name: string;
  /** One per targetRef, in its order. */
  readonly ancestors: readonly AncestorStatus[];
}

export interface BackendTlsPolicyStatus {
  readonly namespace: string;
  readonly name: string;
  /** One per Gateway with a route to a Service of the policy's, sorted by namespace and name; at most 16. */
  readonly ancestors: readonly AncestorStatus<BackendTlsCondition>[];
}

export interface BackendStatus {
  readonly namespace: string;
  readonly name: string;
  readonly conditions: readonly BackendCondition[];
}

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

/** Status of every object that is ours to judge, by kind; each list sorted by namespace and name. */
export interface Statuses {
  readonly gatewayClasses: readonly GatewayClassStatus[];
  readonly gateways: readonly GatewayStatus[];
  readonly listenerSets: readonly ListenerSetStatus[];
  readonly httpRoutes: readonly RouteStatus[];
  readonly backendTlsPolicies: readonly BackendTlsPolicyStatus[];
  readonly proxyPolicies: readonly PolicyStatus[];
  readonly backends: readonly BackendStatus[];
}
