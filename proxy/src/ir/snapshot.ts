/**
 * The one thing that crosses from configuration to the data path: an immutable, plain-data picture of what to serve.
 *
 * `translate` makes it, the main thread sends it to every worker as JSON (so it holds nothing that JSON does not keep),
 * and each worker compiles it and swaps it in whole; a request keeps the snapshot it started with. It holds no counter,
 * no connection and no health: that state lives beside it, keyed by the identities below, so an edit elsewhere never
 * resets a budget (docs/adr/0002).
 */
import type { Filter } from "./filter.ts";
import type { GlobalLimit } from "./global-limit.ts";
import type { LocalLimit } from "./limit.ts";
import type { Match } from "./match.ts";
import type { UsageChunk } from "./usage.ts";

export interface Snapshot {
  /** Counts up from 1 with every accepted configuration. */
  readonly generation: number;
  /** Sorted by address and port; one socket address each. */
  readonly binds: readonly Bind[];
  /** Every backend that some rule names, as a target or to count its global limits, by its key. */
  readonly backends: Readonly<Record<BackendKey, Backend>>;
}

/** A socket address to listen on, and the listeners that share it. */
export interface Bind {
  /** An IP address of the Gateway's `spec.addresses`; absent means the process's own listen address. */
  readonly address?: string;
  /** 1..65535 */
  readonly port: number;
  readonly listeners: readonly Listener[];
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

/** How a listener meets TLS clients (Gateway API `ListenerTLSConfig`, `FrontendTLSConfig`). */
export interface ListenerTls {
  /** In the order of the references; never empty. Of those for one name the first is shown. */
  readonly certificates: readonly Certificate[];
  readonly minVersion: TlsVersion;
  readonly maxVersion: TlsVersion;
  /** OpenSSL's names of TLS 1.2 suites, separated by colons, best first; absent: our own choice. */
  readonly ciphers?: string;
  /** What is agreed on by ALPN, best first; never empty. */
  readonly protocols: readonly AlpnProtocol[];
  /** Absent: clients are not asked for a certificate. */
  readonly clientValidation?: ClientValidation;
}

export type TlsVersion = "TLSv1.2" | "TLSv1.3";
export type AlpnProtocol = "h2" | "http/1.1";

/** A certificate of a Secret of type `kubernetes.io/tls`. */
export interface Certificate {
  /** `namespace/name` of the Secret. */
  readonly source: string;
  /** PEM, the server's own certificate first, then those that lead to its root. */
  readonly chain: string;
  /** PEM */
  readonly privateKey: Secret;
  /** DNS names it is for, lower case; exact or `*.` followed by a domain. */
  readonly hostnames: readonly string[];
}

/** Which client certificates are taken (Gateway API `FrontendTLSValidation`). */
export interface ClientValidation {
  /** PEM certificates of the authorities that are trusted. */
  readonly authorities: string;
  /** `AllowInsecureFallback` asks for a certificate and takes the client whatever it shows. */
  readonly mode: "AllowValidOnly" | "AllowInsecureFallback";
}

export interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}

/** An HTTPRoute as one listener sees it. */
export interface Route extends ObjectName {
  /** `namespace/name` */
  readonly key: string;
  /**
   * Those of the route's hostnames, as written there, that have hosts in common with the listener's; lower case. Empty
   * matches every host of the listener. Not narrowed: a host that the route names exactly outranks one that a wildcard
   * of it covers, also where the listener has one host only (Gateway API `HTTPRouteSpec.hostnames`).
   */
  readonly hostnames: readonly string[];
  /** RFC 3339; the first tie-breaker between routes. Absent sorts last. */
  readonly creationTimestamp?: string;
  readonly rules: readonly RouteRule[];
}

export interface RouteRule {
  /** `namespace/name/0`: the route and the rule's place in it; or its `name` in place of the number. */
  readonly key: string;
  readonly name?: string;
  /** Never empty: a rule without matches has one that matches path prefix `/`. */
  readonly matches: readonly Match[];
  /** In the order to apply. */
  readonly filters: readonly Filter[];
  /** Empty: the rule answers 500 (Gateway API `HTTPRouteRule.backendRefs`). */
  readonly backendRefs: readonly BackendRef[];
  /** Absent: no limit but those of the connection to the backend. */
  readonly timeouts?: Timeouts;
  /** Absent: only what never reached the backend, or may safely be repeated, is sent to one more endpoint. */
  readonly retry?: RetryPolicy;
  /** Every limit that applies here: of the rule, the route, the listener and the Gateway, in that order. */
  readonly limits: readonly LocalLimit[];
  /** Global limits in the same order; absent where there are none. */
  readonly globalLimits?: readonly GlobalLimit[];
  /** Policies (`namespace/name`) that cannot be read and close the rule: it answers 503. Absent where there are none. */
  readonly refusedPolicies?: readonly string[];
}

/** Gateway API `HTTPRouteTimeouts`. Milliseconds; 0 means that there is none. */
export interface Timeouts {
  /** From the head of the client's request to the last byte of its answer, retries included. */
  readonly requestMs?: number;
  /** From the start of one call to a backend to the last byte of its answer. */
  readonly backendRequestMs?: number;
}

/** Gateway API `HTTPRouteRetry`. */
export interface RetryPolicy {
  /** Statuses that are not passed on while there are attempts left. A call without an answer counts as one of them. */
  readonly codes: readonly number[];
  /** At most this many calls after the first; at least 1. */
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
  /** Takes its share of the traffic and answers it with 500. */
  | { readonly kind: "invalid"; readonly weight: number; readonly reason: string };

/** `Service/namespace/name:port`, `Backend/namespace/name`, or `address/host:port` of a rate limit service. */
export type BackendKey = string;

export interface Backend {
  readonly key: BackendKey;
  readonly kind: "Service" | "Backend";
  readonly namespace: string;
  readonly name: string;
  /** Ready endpoints only; empty answers 503. A host name stands for all its addresses. */
  readonly endpoints: readonly Endpoint[];
  /** Absent: HTTP/1.1. HTTP/2 is spoken from the first byte, or agreed on by ALPN where there is TLS. */
  readonly protocol?: "h2";
  /** Absent: plain text. */
  readonly tls?: UpstreamTls;
  /** Present on an `ai` Backend. */
  readonly ai?: AiBackend;
}

export interface Endpoint {
  /** Pod name, or `backend` for an address that a Backend names itself; shown to operators. */
  readonly name: string;
  /** IP address or host name. */
  readonly host: string;
  readonly port: number;
}

export interface UpstreamTls {
  /** Server name to send and to verify; the endpoint's host when absent. */
  readonly hostname?: string;
  /** PEM certificates of the authorities to trust; absent: those that Node brings. */
  readonly authorities?: string;
  /** Of which the certificate must have one; then `hostname` is asked for and verifies nothing. */
  readonly subjectAltNames?: readonly SubjectAltName[];
  /** Shown to a server that asks for one. */
  readonly clientCertificate?: ClientCertificate;
}

/** A DNS name, exact or `*.` followed by a domain, or a URI such as a SPIFFE id. */
export interface SubjectAltName {
  readonly kind: "dns" | "uri";
  readonly value: string;
}

export interface ClientCertificate {
  /** PEM, the client's own certificate first. */
  readonly chain: string;
  /** PEM */
  readonly privateKey: Secret;
}

/** What an LLM backend needs beyond an endpoint. */
export interface AiBackend {
  readonly provider: "openai" | "anthropic";
  /** Replaces the request body's `model`. */
  readonly model?: string;
  /** Put before the request's path, without a trailing slash. */
  readonly pathPrefix?: string;
  /** Absent passes the client's own credentials through. */
  readonly apiKey?: Secret;
  /** Clients may switch protocols, past token limits and `model`; absent: refused. */
  readonly allowsUpgrades?: true;
  /** Whether clients may ask for work whose tokens no response reports; absent: refused under a token limit or a prescribed `model`. */
  readonly allowsDeferredWork?: true;
  /** Whether endpoints pass that are not known to answer at once by the model that is named; absent: refused like deferred work. */
  readonly allowsOtherEndpoints?: true;
  /** What clients see of the usage event of streams, where no policy says; absent: `defaultUsageChunk`. */
  readonly usageChunk?: UsageChunk;
}

/** Wrapped so that a dump or a log never shows it by accident: redaction looks for this shape. */
export interface Secret {
  readonly secret: string;
}
