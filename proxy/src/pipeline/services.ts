/** What the requests of a listening address share. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Denial } from "../policy/ratelimit/denial.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { AbandonedResponses } from "./attempts/abandoned-responses.ts";
import type { MirrorOutcome } from "./mirror.ts";

/** What stages use. */
export interface StageServices {
  /** Port of the listeners, as their Gateways name it. */
  readonly listenerPort: number;
  /** The source of all times of requests. */
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  /** Reads the rest of responses whose clients have left, for their usage. */
  readonly abandonedResponses: AbandonedResponses;
  /** Called when a limit denies the request, before the response. */
  readonly denied: (record: RequestRecord, denial: Denial) => void;
  /** Called once for each copy that is due; `backend` is the key of the mirror's backend. */
  readonly mirrored: (backend: string, outcome: MirrorOutcome) => void;
}
