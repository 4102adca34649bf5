/** Makes requests at an even rate, to try a limit without a log. */
import type { LoggedIdentity } from "@gatewayproxy/proxy/limit-replay";
import type { ReplayedRequest } from "./replay.ts";

/** Describes synthetic requests. */
export interface SyntheticLoad {
  /** Requests per second; fractions are allowed. */
  readonly perSecond: number;
  readonly durationMs: number;
  /** Of each response; undefined: none, or 1 where a response has a cost. */
  readonly tokens: number | undefined;
  /** In micro-units. */
  readonly cost: number | undefined;
  readonly url: URL;
  readonly method: string;
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[];
  readonly identity: LoggedIdentity | undefined;
}

/** Returns requests of which the first starts at time 0; each ends at once. */
export function syntheticRequests(load: SyntheticLoad): readonly ReplayedRequest[] {
  const {
    perSecond,
    durationMs,
    cost,
    tokens = cost === undefined ? undefined : 1,
    url,
    method,
    rawHeaders,
    identity,
  } = load;
  const total = Math.ceil((perSecond * durationMs) / 1_000);
  const view = {
    method,
    path: `${url.pathname}${url.search}`,
    authority: url.host,
    scheme: url.protocol.replace(":", ""),
    rawHeaders: ["host", url.host, ...rawHeaders],
    sourceAddress: "192.0.2.1",
  };
  return Array.from({ length: total }, (_, at) => {
    const startMs = (at * 1_000) / perSecond;
    const usage =
      tokens === undefined ? undefined : { total: tokens, ...(cost !== undefined && { cost }), estimated: false };
    return { startMs, endMs: startMs, usage, wasDenied: false, view, identity };
  });
}
