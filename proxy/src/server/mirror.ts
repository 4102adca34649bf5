/**
 * Copies of requests to backends whose answers nobody sees (Gateway API `HTTPRequestMirrorFilter`). A copy never delays
 * or fails the request that it copies: it leaves when its body is known, it waits for nobody, and what cannot be copied
 * cheaply (a long body, a backend that has too much under way) is not.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { BackendHandle } from "../upstream/backend-handle.ts";
import type { ResponseSink, UpstreamRequest } from "../upstream/call.ts";
import type { Picker } from "../routing/weighted.ts";
import type { OutgoingRequest } from "./provider-request.ts";
import { largeBodyBytes, RequestBody } from "./request-body.ts";

/** Where copies go, and how many of the requests. */
export interface MirrorTarget {
  readonly backend: BackendHandle;
  readonly pick: Picker<{ readonly weight: number; readonly isCopied: boolean }>;
}

/** What came of a copy: `sent` got an answer, `failed` got none, `skipped` was not sent. */
export type MirrorOutcome = "sent" | "failed" | "skipped";

export interface MirrorServices {
  readonly clock: Clock;
  readonly mirrored: (backend: string, outcome: MirrorOutcome) => void;
}

/** An answer is waited for, and then read and dropped, for so long. */
const answerTimeoutMs = 15_000;
/** A backend that has more under way at the endpoint gets no copies. */
const maxInFlight = 256;

/** Sends `request` to those of `targets` whose turn it is. @param request with the client's own body. */
export function mirrorRequest(
  services: MirrorServices,
  targets: readonly MirrorTarget[],
  request: OutgoingRequest & { readonly body: RequestBody | undefined },
): void {
  for (const { backend, pick } of targets) {
    if (pick()?.isCopied !== true) continue;
    const { body, ...asked } = request;
    // A copy is answered into the void, which no other protocol could be.
    const head = { ...asked, upgrade: undefined };
    if (body === undefined) sendCopy(services, backend, { ...head, body: undefined });
    else {
      body.keepUpTo(largeBodyBytes);
      body.collect((whole) => {
        // A copy outlives its request, and nobody counts its memory: a body that is held to be edited may be far longer.
        if (whole === undefined || whole.length > largeBodyBytes) services.mirrored(backend.backend.key, "skipped");
        else sendCopy(services, backend, { ...head, body: whole });
      });
    }
  }
}

/** A copy that fails inside the proxy is a failed copy, and nothing to the request that it copies. */
function sendCopy(services: MirrorServices, target: BackendHandle, request: UpstreamRequest): void {
  try {
    trySendCopy(services, target, request);
  } catch {
    services.mirrored(target.backend.key, "failed");
  }
}

function trySendCopy({ clock, mirrored }: MirrorServices, target: BackendHandle, request: UpstreamRequest): void {
  const { key } = target.backend;
  const pool = target.pick([]);
  if (pool === "none" || pool === "overloaded" || pool.inFlight >= maxInFlight) {
    mirrored(key, "skipped");
    return;
  }
  const sink: ResponseSink = {
    onHead: () => undefined,
    onData: () => undefined,
    onEnd() {
      timer.cancel();
      mirrored(key, "sent");
    },
    onFailure() {
      timer.cancel();
      mirrored(key, "failed");
    },
    onFault() {
      timer.cancel();
      mirrored(key, "failed");
    },
  };
  const timer = clock.setTimer(answerTimeoutMs, () => {
    call.expire();
    mirrored(key, "failed");
  });
  const call = pool.send(request, sink);
}
