/** Reports the attempts of one request to those who watch it, and to its detailed log. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { redactHeaders, redactPath, redactText } from "@gatewayproxy/runtime/redaction";
import { loggedHeaders } from "../../telemetry/request-log.ts";
import type { RequestTrace } from "../../telemetry/trace/request-trace.ts";
import type { EndpointPool } from "../../upstream/endpoint-pool.ts";
import type { BackendTarget } from "../compiled-rule.ts";
import type { OutgoingRequest } from "../provider-request.ts";
import { severityOfStatus } from "../trace-messages.ts";
import type { RetryDecision } from "./retry-rules.ts";

/** An attempt that begins. */
export interface StartedAttempt {
  /** From 1. */
  readonly call: number;
  readonly target: BackendTarget;
  readonly pool: EndpointPool;
  readonly request: OutgoingRequest;
  /** The endpoints of earlier attempts. */
  readonly tried: readonly EndpointPool[];
}

/** The reports of one request. Results are those of the latest attempt. */
export class AttemptTrace {
  readonly #clock: Clock;
  readonly #trace: RequestTrace;
  /** The latest attempt, for its result. */
  #latest = { backend: "", target: "", call: 0 };
  #startMs = 0;

  constructor(clock: Clock, trace: RequestTrace) {
    this.#clock = clock;
    this.#trace = trace;
  }

  started({ call, target, pool: { endpoint, address }, request, tried }: StartedAttempt): void {
    const backend = target.backend.backend.key;
    this.#latest = { backend, target: address, call };
    this.#startMs = this.#clock.monotonicMs();
    this.#trace.emit({ type: "backendCallStart", backend, target: address, endpoint: endpoint.name, call });
    const log = this.#trace.log?.upstream;
    if (log === undefined) return;
    const { inUse, leftOut } = target.backend.choice(tried);
    const others = leftOut.length > 0 && { leftOut };
    log.debug(
      { backend, endpoint: address, name: endpoint.name, call, candidates: inUse, ...others },
      "endpoint picked",
    );
    if (!log.isTracing) return;
    const { method, path, headers } = request;
    log.trace(
      { endpoint: address, call, method: redactText(method), path: redactPath(path), headers: loggedHeaders(headers) },
      "request head sent",
    );
  }

  responded(status: number, headers: readonly string[]): void {
    const result = { type: "backendCallResult" as const, ...this.#latest, status, headers: redactHeaders(headers) };
    this.#trace.emit(result, severityOfStatus(status), this.#startMs);
  }

  failed(error: string): void {
    this.#trace.emit({ type: "backendCallResult", ...this.#latest, error }, "error", this.#startMs);
  }

  /** No endpoint can get the request. @param tried the endpoints of earlier attempts. */
  notPicked(why: "none" | "overloaded", { backend }: BackendTarget, tried: readonly EndpointPool[]): void {
    const log = this.#trace.log?.upstream;
    if (log === undefined) return;
    const { leftOut } = backend.choice(tried);
    const { inFlight, waiting } = backend.load;
    log.debug(
      { backend: backend.backend.key, leftOut, inFlight, waiting },
      why === "none" ? "no endpoint to pick" : "backend overloaded",
    );
  }

  /** Whether the request is sent again. @param cause of the failed attempt. */
  decided(cause: string, decision: RetryDecision): void {
    const log = this.#trace.log?.upstream;
    if (decision.kind === "retry") log?.debug({ cause, waitMs: Math.round(decision.waitMs) }, "call retried");
    else if (decision.why !== undefined) log?.debug({ cause, why: decision.why }, "call not retried");
  }

  /** The request moves from a provider to the next one. @param cause of the failed attempt. */
  moved(provider: string, cause: string): void {
    this.#trace.log?.upstream.debug({ provider, cause }, "request moves to the next provider");
  }
}
