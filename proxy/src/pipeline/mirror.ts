/**
 * Copies of requests to backends whose responses are discarded (Gateway API `HTTPRequestMirrorFilter`). A copy never
 * delays or fails its request: it is sent when its body is complete, without waiting, and it is omitted if it would be
 * expensive (a long body, a backend with too many requests in progress, no memory for further copies).
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { BackendHandle } from "../upstream/backend-handle.ts";
import type { AttemptSpan, RequestSpan } from "../telemetry/spans/request-span.ts";
import type { ResponseSink, UpstreamRequest } from "../upstream/call.ts";
import type { EndpointPool } from "../upstream/endpoint-pool.ts";
import type { Picker } from "../routing/weighted.ts";
import type { CopyMemory, CopyShare } from "./copy-memory.ts";
import type { OutgoingRequest } from "./provider-request.ts";
import { largeBodyBytes, RequestBody } from "./body/request-body.ts";

/** The backend of the copies, and the choice of the requests that are copied. */
export interface MirrorTarget {
  readonly backend: BackendHandle;
  readonly pick: Picker<{ readonly weight: number; readonly isCopied: boolean }>;
}

/** The result of a copy: `sent` got a response, `failed` got none, `skipped` was not sent. */
export type MirrorOutcome = "sent" | "failed" | "skipped";

/** The clock for the 15 s that a copy may take, their memory, and the receiver of outcomes. */
export interface MirrorServices {
  /** Times the responses to copies. */
  readonly clock: Clock;
  /** The memory of the copies of this worker. */
  readonly copies: CopyMemory;
  /** Called once for each copy that is due; `backend` is the key of the mirror's backend. */
  readonly mirrored: (backend: string, outcome: MirrorOutcome) => void;
}

/** Maximum time of the response to a copy. */
const responseTimeoutMs = 15_000;
/** Number of requests in progress at an endpoint from which on it gets no copies. */
const maxInFlight = 256;

/** A request that is copied. */
export interface MirroredRequest {
  /** With the body as the client sent it. */
  readonly request: OutgoingRequest & { readonly body: RequestBody | undefined };
  /** Undefined if spans are not exported. */
  readonly span: RequestSpan | undefined;
  /** The address of the client; for IPv6, that of its network. */
  readonly client: string;
}

/** A copy with a complete body. */
type Copy = UpstreamRequest & { readonly body: Buffer | undefined };

/** Sends copies of a request to the targets that pick it. */
export function mirrorRequest(
  services: MirrorServices,
  targets: readonly MirrorTarget[],
  mirrored: MirroredRequest,
): void {
  const { request } = mirrored;
  for (const { backend, pick } of targets) {
    if (pick()?.isCopied !== true) continue;
    const { body, method, path, headers } = request;
    // The response to a copy is discarded, which is not possible with another protocol.
    const head = { method, path, fields: headers, upgrade: undefined };
    if (body === undefined) {
      sendCopy(services, backend, { ...head, body: undefined }, mirrored);
    } else {
      body.keepUpTo(largeBodyBytes);
      body.collect((whole) => {
        // Bodies that are buffered for edits may be far longer than the bound of copies.
        if (whole === undefined || whole.length > largeBodyBytes) services.mirrored(backend.backend.key, "skipped");
        else sendCopy(services, backend, { ...head, body: whole }, mirrored);
      });
    }
  }
}

/** Sends a copy. An internal error counts as a failed copy and does not affect the request. */
function sendCopy(
  services: MirrorServices,
  target: BackendHandle,
  copy: Copy,
  { span, client }: MirroredRequest,
): void {
  const { key, namespace } = target.backend;
  let share: CopyShare | undefined;
  try {
    const pool = target.pick([]);
    const isFree = pool !== "none" && pool !== "overloaded" && pool.inFlight < maxInFlight;
    share = isFree ? services.copies.open(namespace, client, lengthOf(copy)) : undefined;
    if (isFree && share !== undefined) trySendCopy(services, target, { pool, share, copy, span });
    else services.mirrored(key, "skipped");
  } catch {
    share?.close();
    services.mirrored(key, "failed");
  }
}

function lengthOf({ path, fields, body }: Copy): number {
  return fields.reduce((sum, text) => sum + text.length, path.length + (body?.length ?? 0));
}

/** A copy with its endpoint and its memory. */
interface SentCopy {
  readonly pool: EndpointPool;
  readonly share: CopyShare;
  readonly copy: Copy;
  readonly span: RequestSpan | undefined;
}

function trySendCopy(
  { clock, mirrored }: MirrorServices,
  target: BackendHandle,
  { pool, share, copy: request, span }: SentCopy,
): void {
  const { key } = target.backend;
  const copy = span?.keepsCalls === true ? startCopy(span, target, pool, request, clock.monotonicMs()) : undefined;
  const end = (outcome: "sent" | "failed", failure?: string): void => {
    timer.cancel();
    share.close();
    mirrored(key, outcome);
    if (copy === undefined) return;
    copy.failure = failure;
    span?.endCall(copy, clock.monotonicMs());
  };
  const sink: ResponseSink = {
    onHead(status) {
      if (copy !== undefined) copy.status = status;
    },
    onData: () => undefined,
    onEnd: () => end("sent"),
    onFailure: ({ kind }) => end("failed", kind),
    onFault: () => end("failed", "internal"),
  };
  const timer = clock.setTimer(responseTimeoutMs, () => {
    call.expire();
    end("failed", "timeout");
  });
  const fields = copy === undefined ? request.fields : (span?.withParent(copy, request.fields) ?? request.fields);
  const call = pool.send({ ...request, fields }, sink);
}

function startCopy(
  span: RequestSpan,
  { backend }: BackendHandle,
  { endpoint: { host, port } }: EndpointPool,
  { method, path }: UpstreamRequest,
  startMs: number,
): AttemptSpan {
  const scheme = backend.tls === undefined ? "http" : "https";
  return span.startAttempt({ startMs, backend: backend.key, host, port, scheme, method, path, ai: undefined }, "copy");
}
