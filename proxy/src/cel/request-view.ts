/**
 * The view that expressions have of a request: fields as the server received them, unparsed. Thus a request without
 * expressions causes no work.
 */

import type { Identities } from "./identity.ts";
import type { LlmView } from "./llm-view.ts";
import type { LogFields } from "./log-fields.ts";
import type { RequestWork } from "./request-work.ts";

export interface RequestView {
  /** Whether it is a connection or a session that is relayed. What reads a request then has no value. */
  readonly isConnection?: true;
  readonly method: string;
  /** Path and query as received. */
  readonly path: string;
  /** The `Host` field or `:authority`, with the port if it contains one. */
  readonly authority: string;
  /** The scheme that the client used: `http` or `https`. */
  readonly scheme: string;
  /** Names and values alternate. Names are unique and in any case; pseudo-headers are ignored. */
  readonly rawHeaders: readonly string[];
  /**
   * The address of the client without its port: the peer of the connection, or the address that trusted proxies report.
   */
  readonly sourceAddress: string;
  /** The number of leading bits of an IPv6 address that identify a client; `defaultIpv6PrefixLength` if absent. */
  readonly ipv6PrefixLength?: number;
  /** The server name that the client sent in its TLS handshake (SNI), in lower case; undefined without one. */
  readonly serverName?: string | undefined;
  /** `namespace/name` of the HTTPRoute, of other kinds with the kind: `GRPCRoute/namespace/name`. */
  readonly route: string;
  /** `namespace/name` of the Gateway. */
  readonly gateway: string;
  /** What authentication has verified; absent without authentication, and before it. */
  readonly identities?: Identities | undefined;
  /** The known values of an LLM request and its response; absent until the request body has been read. */
  readonly llm?: LlmView;
  /**
   * Names and values of the response alternate. Names may be in any case, and repeat; absent until the end of the
   * request.
   */
  readonly responseHeaders?: readonly string[];
  /** The fields of its line in the access log; absent until its end. */
  readonly log?: LogFields;
  /** The work of the expressions of the request's limits; absent if only each single evaluation is bounded. */
  readonly work?: RequestWork;
}
