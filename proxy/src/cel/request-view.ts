/**
 * What an expression may see of a request, as the server already has it: plain fields, nothing parsed, so that a
 * request under no expression pays nothing for it.
 */

export interface RequestView {
  readonly method: string;
  /** As received: path and query. */
  readonly path: string;
  /** `Host` field or `:authority`, with its port if it names one. */
  readonly authority: string;
  /** `http` or `https`, as the client used it. */
  readonly scheme: string;
  /** Names and values in turn, in any case, as node:http and node:http2 give them; pseudo-headers are ignored. */
  readonly rawHeaders: readonly string[];
  /** Peer address of the connection, without the port. */
  readonly sourceAddress: string;
  /** `namespace/name` of the HTTPRoute. */
  readonly route: string;
  /** `namespace/name` of the Gateway. */
  readonly gateway: string;
}
