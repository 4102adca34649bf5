/** The services that the requests of a bind share. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { TokenCounter } from "../llm/tokens/token-counter.ts";
import type { OutputMeans } from "./output-means.ts";
import type { Denial } from "../policy/ratelimit/denial.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { RequestTracing } from "../telemetry/spans/request-tracing.ts";
import type { AbandonedResponses } from "./attempts/abandoned-responses.ts";
import type { CopyMemory } from "./copy-memory.ts";
import type { MirrorOutcome } from "./mirror.ts";

/** The services that stages use. */
export interface StageServices {
  /** The port of the listeners in their Gateways. */
  readonly listenerPort: number;
  /** The source of all times of requests. */
  readonly clock: Clock;
  /** Returns a random number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  /** Reads the rest of responses whose clients have disconnected, for their usage. */
  readonly abandonedResponses: AbandonedResponses;
  /** The spans of requests; absent if they are not exported. */
  readonly tracing?: RequestTracing | undefined;
  /** The mean output of models, for requests that do not say how much they allow. */
  readonly outputMeans: OutputMeans;
  /** Counts the tokens of prompts; absent: estimates use bytes. */
  readonly tokens?: TokenCounter | undefined;
  /** Called when a limit denies the request, before the response. */
  readonly denied: (record: RequestRecord, denial: Denial) => void;
  /** The memory of copies for mirrors. */
  readonly copies: CopyMemory;
  /** Called once for each copy that is due; `backend` is the key of the mirror's backend. */
  readonly mirrored: (backend: string, outcome: MirrorOutcome) => void;
}
