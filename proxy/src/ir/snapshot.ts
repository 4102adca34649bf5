/**
 * The snapshot: an immutable, plain-data description of what to serve, and all that passes from configuration to the
 * data path.
 *
 * `translate` builds it, and the main thread sends it to every worker as JSON, so it contains only JSON values. Each
 * worker compiles it and swaps it in as a whole; a request keeps the snapshot with which it began. Counters,
 * connections and health are not part of it. They are kept separately, keyed by the identities below, so that an edit
 * elsewhere never resets a limit (docs/adr/0002).
 */
import type { Authentication } from "./authentication.ts";
import type { Filter } from "./filter.ts";
import type { GlobalLimit } from "./global-limit.ts";
import type { LocalLimit } from "./limit.ts";
import type { Match } from "./match.ts";
import type { UsageChunk } from "./usage.ts";

/** A configuration of the data path. */
export interface Snapshot {
  /** Counts up from 1 with every accepted configuration. */
  readonly generation: number;
  /** Sorted by address and port; one socket address each. */
  readonly binds: readonly Bind[];
  /** Every backend that a rule refers to, as a target or as the service of its global limits, sorted by key. */
  readonly backends: readonly Backend[];
}

/** A socket address to listen on, and the listeners that share it. */
export interface Bind {
  /** An IP address of the Gateway's `spec.addresses`; absent means the process's own listen address. */
  readonly address?: string;
  /** 1..65535 */
  readonly port: number;
  /** Absent: TCP. A port may be bound for both. */
  readonly transport?: "UDP";
  /** Listeners of HTTP requests; empty where `transport` is UDP or a TCP listener has the port. */
  readonly listeners: readonly Listener[];
  /**
   * Listeners whose connections, or with UDP sessions, are relayed without being read. TLS listeners may share the port
   * with HTTPS listeners: the server name of a connection decides. A TCP or UDP listener has the port alone. Absent
   * where there are none.
   */
  readonly streams?: readonly StreamListener[];
}

/** A listener of protocol TLS, TCP or UDP of one Gateway, its own or of a ListenerSet of it. */
export interface StreamListener {
  /** As `Listener.key`. */
  readonly key: string;
  readonly gateway: ObjectName;
  readonly name: string;
  readonly protocol: "TLS" | "TCP" | "UDP";
  /**
   * Only where `protocol` is TLS: the gateway ends TLS and relays plain text. Absent: the bytes of TLS are relayed
   * (Passthrough).
   */
  readonly tls?: ListenerTls;
  /** Only where `protocol` is TLS: as `Listener.hostname`. */
  readonly hostname?: string;
  /** Routes attached to this listener, in their precedence. Without server names only the first gets connections. */
  readonly routes: readonly StreamRoute[];
}

/** A TLSRoute, TCPRoute or UDPRoute attached to one listener. */
export interface StreamRoute extends ObjectName {
  /** `TLSRoute/namespace/name`, `TCPRoute/namespace/name` or `UDPRoute/namespace/name`. */
  readonly key: string;
  /**
   * Of a TLSRoute, at least one: those that overlap with the host name of the listener; lower case. Empty for other
   * kinds.
   */
  readonly hostnames: readonly string[];
  /** RFC 3339; the first tie-breaker between routes. Absent sorts last. */
  readonly creationTimestamp?: string;
  /** `namespace/name/0` behind the kind: the key of the route, and the index or the `name` of its rule. */
  readonly rule: string;
  /** Without filters. Empty, or all invalid: connections are closed, and datagrams are dropped. */
  readonly backendRefs: readonly BackendRef[];
  /**
   * Limits on connections (`counts` is `connections`) of the rule, the route, the listener and the Gateway, in that
   * order.
   */
  readonly limits: readonly LocalLimit[];
  /** As `RouteRule.refusedPolicies`: connections are closed. */
  readonly refusedPolicies?: readonly string[];
}

/** One listener of one Gateway, its own or of a ListenerSet of it (Gateway API `Listener`, `ListenerEntry`). */
export interface Listener {
  /** `namespace/gateway/listener`; of a ListenerSet `namespace/gateway/set namespace/set/listener`. */
  readonly key: string;
  readonly gateway: ObjectName;
  readonly name: string;
  readonly protocol: "HTTP" | "HTTPS";
  /** Present exactly where `protocol` is HTTPS. All listeners of a bind have it, or none. */
  readonly tls?: ListenerTls;
  /** Lower case; exact or `*.` followed by a domain; absent matches every host. */
  readonly hostname?: string;
  /** Routes attached to this listener, oldest first, then by namespace and name. */
  readonly routes: readonly Route[];
}

/** TLS of a listener (Gateway API `ListenerTLSConfig`, `FrontendTLSConfig`). */
export interface ListenerTls {
  /** In the order of the references, at least one. Of several for one name the first is presented. */
  readonly certificates: readonly Certificate[];
  readonly minVersion: TlsVersion;
  readonly maxVersion: TlsVersion;
  /**
   * OpenSSL names of TLS 1.2 suites, separated by colons, in order of preference; absent: the default of the gateway.
   */
  readonly ciphers?: string;
  /** Protocols for ALPN in order of preference, at least one. */
  readonly protocols: readonly AlpnProtocol[];
  /** Absent: clients are not asked for a certificate. */
  readonly clientValidation?: ClientValidation;
}

/** A version of TLS that listeners may accept, in the spelling of node:tls. Later versions sort after earlier ones. */
export type TlsVersion = "TLSv1.2" | "TLSv1.3";
/** A protocol that ALPN can select on a listener (RFC 7301). */
export type AlpnProtocol = "h2" | "http/1.1";

/** A certificate of a Secret of type `kubernetes.io/tls`. */
export interface Certificate {
  /** `namespace/name` of the Secret. */
  readonly source: string;
  /** PEM: the server certificate, then the chain to its root. */
  readonly chain: string;
  /** PEM */
  readonly privateKey: Secret;
  /** DNS names of the certificate in lower case; exact or `*.` followed by a domain. */
  readonly hostnames: readonly string[];
}

/** Validation of client certificates (Gateway API `FrontendTLSValidation`). */
export interface ClientValidation {
  /** Trusted authorities: one PEM text per object that holds some. Never empty. */
  readonly authorities: readonly string[];
  /** `AllowInsecureFallback` requests a certificate and accepts the client whatever it presents. */
  readonly mode: "AllowValidOnly" | "AllowInsecureFallback";
}

/** The name of an object. */
export interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}

/** An HTTPRoute or a GRPCRoute attached to one listener. */
export interface Route extends ObjectName {
  /** `namespace/name` of an HTTPRoute, `GRPCRoute/namespace/name` of a GRPCRoute. */
  readonly key: string;
  /**
   * Host names of the route, as in the route, that overlap with that of the listener; lower case. Empty matches every
   * host of the listener. They are not narrowed: a host that the route names exactly takes precedence over one that its
   * wildcard covers, even where the listener has one host only (Gateway API `HTTPRouteSpec.hostnames`).
   */
  readonly hostnames: readonly string[];
  /** RFC 3339; the first tie-breaker between routes. Absent sorts last. */
  readonly creationTimestamp?: string;
  readonly rules: readonly RouteRule[];
}

/** A rule of a route. */
export interface RouteRule {
  /** `namespace/name/0`: the key of the route, and the index or the `name` of the rule. */
  readonly key: string;
  readonly name?: string;
  /** Never empty: a rule without matches has one that matches path prefix `/`. */
  readonly matches: readonly Match[];
  /** In the order to apply. */
  readonly filters: readonly Filter[];
  /** Empty: the rule responds with 500 (Gateway API `HTTPRouteRule.backendRefs`). */
  readonly backendRefs: readonly BackendRef[];
  /** Absent: only the timeouts of connections to the backend apply. */
  readonly timeouts?: Timeouts;
  /** Absent: only a request that never reached the backend, or is safe to repeat, is sent to one more endpoint. */
  readonly retry?: RetryPolicy;
  /**
   * Authentication of the Gateway, the listener, the route and the rule, in that order; each must accept a request.
   * Absent where there is none.
   */
  readonly authentication?: readonly Authentication[];
  /** All limits of the rule, the route, the listener and the Gateway, in that order. */
  readonly limits: readonly LocalLimit[];
  /** Global limits in the same order; absent where there are none. */
  readonly globalLimits?: readonly GlobalLimit[];
  /**
   * The first policies (`namespace/name`) that are invalid and close the rule, which responds with 503. Absent where
   * there are none.
   */
  readonly refusedPolicies?: readonly string[];
}

/** Gateway API `HTTPRouteTimeouts`, in milliseconds; 0 means none. */
export interface Timeouts {
  /** From the head of the client's request to the last byte of its response, including retries. */
  readonly requestMs?: number;
  /** From the start of an attempt to the last byte of its response. */
  readonly backendRequestMs?: number;
}

/** Gateway API `HTTPRouteRetry`. */
export interface RetryPolicy {
  /** Statuses that are retried while attempts are left. */
  readonly codes: readonly number[];
  /** The most attempts after the first one; 0 for none. */
  readonly attempts: number;
  /** Shortest wait before the first retry; later ones wait longer. */
  readonly backoffMs: number;
}

/** One weighted target of a rule. */
export type BackendRef =
  | {
      readonly kind: "backend";
      readonly weight: number;
      readonly backend: BackendKey;
      readonly filters: readonly Filter[];
    }
  /** Responds with 500 to its share of the traffic. */
  | { readonly kind: "invalid"; readonly weight: number; readonly reason: string };

/**
 * `Service/namespace/name:port`, `Backend/namespace/name` (both with ` over HTTP/2` for GRPCRoutes, ` over TCP` and `
 * over UDP` for stream routes), or `address/host:port` of a rate limit service.
 */
export type BackendKey = string;

/** A backend and its endpoints. */
export interface Backend {
  readonly key: BackendKey;
  readonly kind: "Service" | "Backend";
  readonly namespace: string;
  readonly name: string;
  /** Ready endpoints; where there is none the response is a 503. A host name represents all its addresses. */
  readonly endpoints: readonly Endpoint[];
  /**
   * Absent: HTTP/1.1. HTTP/2 is used with prior knowledge, or agreed on by ALPN with TLS. `tcp` and `udp`: only stream
   * routes refer to the backend, and no protocol is agreed on.
   */
  readonly protocol?: "h2" | "tcp" | "udp";
  /** Absent: plain text. */
  readonly tls?: UpstreamTls;
  /** Present on an `ai` Backend with one provider. */
  readonly ai?: AiBackend;
  /** Present on an `ai` Backend with several providers, which has no endpoints of its own. */
  readonly failover?: Failover;
}

/** The providers of a Backend that replace each other, and when a request moves to the next one. */
export interface Failover {
  /** In the order of the Backend, at least one; each is in the snapshot and has `ai`. */
  readonly providers: readonly ProviderRef[];
  /** Maximum time from the start of an attempt to the head of its response, in milliseconds; absent: unlimited. */
  readonly firstByteTimeoutMs?: number;
  /** Maximum time without data in a stream before its first event, in milliseconds; absent: unlimited. */
  readonly streamIdleTimeoutMs?: number;
}

/** A provider of a Backend with several. */
export interface ProviderRef {
  readonly backend: BackendKey;
  /** Lower numbers are tried first; 0 to 15. */
  readonly priority: number;
  /** The share among the available providers of the same priority; at least 1. */
  readonly weight: number;
}

/** One address of a backend. */
export interface Endpoint {
  /** Pod name, or `backend` for the address of a Backend; shown to operators. */
  readonly name: string;
  /** IP address or host name. */
  readonly host: string;
  readonly port: number;
}

/** TLS to the endpoints of a backend. */
export interface UpstreamTls {
  /** Server name to send (SNI) and to verify; absent: the host of the endpoint. */
  readonly hostname?: string;
  /** Trusted authorities: one PEM text per object that holds some. Absent: the authorities of the system. */
  readonly authorities?: readonly string[];
  /** Names of which the certificate must have one; `hostname` is then sent, but not verified. */
  readonly subjectAltNames?: readonly SubjectAltName[];
  /** Presented to a server that requests one. */
  readonly clientCertificate?: ClientCertificate;
}

/** A DNS name, exact or `*.` followed by a domain, or a URI such as a SPIFFE id. */
export interface SubjectAltName {
  readonly kind: "dns" | "uri";
  readonly value: string;
}

/** The client certificate for a backend. */
export interface ClientCertificate {
  /** PEM: the client certificate, then its chain. */
  readonly chain: string;
  /** PEM */
  readonly privateKey: Secret;
}

/** Settings of an `ai` Backend. */
export interface AiBackend {
  readonly provider: "openai" | "anthropic" | "azure" | "gemini" | "bedrock" | "openaiCompatible";
  /** Replaces the model of the request, in its body, and for `azure`, `gemini` and `bedrock` in its path. */
  readonly model?: string;
  /** The models that are offered to clients, with distinct names; absent: any. Never present beside `model`. */
  readonly models?: readonly OfferedModel[];
  /** Azure: the value of `api-version` in requests that have none. */
  readonly apiVersion?: string;
  /** Azure: whether `apiKey` is sent as a bearer token; absent: as `api-key`. */
  readonly sendsBearer?: true;
  /** Bedrock: signs each request; absent: `apiKey` or the credentials of the client are sent. */
  readonly signature?: AwsSignature;
  /** Prefix of the request's path, without a trailing slash. */
  readonly pathPrefix?: string;
  /** Absent: the credentials of the client are forwarded. */
  readonly apiKey?: Secret;
  /** Whether clients may switch protocols, which bypasses token limits and `model`; absent: rejected. */
  readonly allowsUpgrades?: true;
  /**
   * Whether clients may request work whose tokens no response reports; absent: rejected under a token limit or `model`.
   */
  readonly allowsDeferredWork?: true;
  /** Whether endpoints outside the known model APIs are served; absent: rejected under a token limit or `model`. */
  readonly allowsOtherEndpoints?: true;
  /** `usageChunk` where no policy has one; absent: `defaultUsageChunk`. */
  readonly usageChunk?: UsageChunk;
  /** Prices by model: the name that the provider gets, or that of a client. Absent: no model has a price. */
  readonly prices?: Readonly<Record<string, ModelPrice>>;
  /** The currency of the prices, for logs and metrics; absent: it has no name. */
  readonly currency?: string;
}

/** The price of a model: micro-units of the currency for a million tokens, whole numbers of at least 0. */
export interface ModelPrice {
  readonly input: number;
  /** Of input that was read from a cache of the provider; absent: `input`. */
  readonly cachedInput?: number;
  /** Of input that was written to a cache of the provider; absent: `input`. */
  readonly cacheCreation?: number;
  readonly output: number;
}

/** A model that clients may request of an `ai` Backend. */
export interface OfferedModel {
  /** The name by which clients request it. */
  readonly name: string;
  /** The name that the provider gets. */
  readonly as: string;
}

/** Signs requests to a service of AWS (Signature Version 4). */
export interface AwsSignature {
  readonly region: string;
  readonly credentials: AwsCredentials;
}

/** Credentials of AWS. */
export interface AwsCredentials {
  readonly accessKeyId: Secret;
  readonly secretAccessKey: Secret;
  /** Of temporary credentials. */
  readonly sessionToken?: Secret;
}

/** A secret value, wrapped so that a dump or a log never shows it: redaction looks for this shape. */
export interface Secret {
  readonly secret: string;
}
