/** A refusal of a request by a limit, as it is told to whoever asks later why. */
import type { GlobalLimit } from "../../ir/global-limit.ts";
import type { Refused, Undecided } from "./global/limit-gate.ts";
import type { Denied } from "./local-limiter.ts";

export type Denial =
  | { readonly kind: "local"; readonly denied: Denied }
  | { readonly kind: "global"; readonly limit: GlobalLimit; readonly refused: Refused | Undecided };
