/** The denial of a request by a limit, for the endpoint that explains denials. */
import type { GlobalLimit } from "../../ir/global-limit.ts";
import type { GateDenied, GateUnavailable } from "./global/limit-gate.ts";
import type { Denied } from "./local-limiter.ts";

export type Denial =
  | { readonly kind: "local"; readonly denied: Denied }
  | { readonly kind: "global"; readonly limit: GlobalLimit; readonly decision: GateDenied | GateUnavailable };
