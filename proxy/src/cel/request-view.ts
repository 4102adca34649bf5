/**
 * What an expression may see of a request, as the server already has it: plain fields, nothing parsed, so that a
 * request under no expression pays nothing for it.
 */

import type { LlmView } from "./llm-view.ts";
import type { RequestWork } from "./request-work.ts";

export interface RequestView {
  readonly method: string;
  /** As received: path and query. */
  readonly path: string;
  /** `Host` field or `:authority`, with its port if it names one. */
  readonly authority: string;
  /** `http` or `https`, as the client used it. */
  readonly scheme: string;
  /** Names and values in turn, names in any case and each once; pseudo-headers are ignored. */
  readonly rawHeaders: readonly string[];
  /** Where the request comes from: the peer of the connection, or what trusted proxies say of it; without the port. */
  readonly sourceAddress: string;
  /** Bits of an IPv6 address that tell one client from another; absent: `defaultIpv6PrefixLength`. */
  readonly ipv6PrefixLength?: number;
  /** `namespace/name` of the HTTPRoute. */
  readonly route: string;
  /** `namespace/name` of the Gateway. */
  readonly gateway: string;
  /** What is known of an LLM request by now; absent until its body has been read. */
  readonly llm?: LlmView;
  /** What the expressions of the request's limits have cost by now; absent where only single evaluations are bounded. */
  readonly work?: RequestWork;
}
