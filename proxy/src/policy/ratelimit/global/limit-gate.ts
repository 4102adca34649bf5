/**
 * Decides about requests under one global limit: by an earlier refusal that still lasts, by the service, or, where that
 * fails, by what its failure mode puts in its place.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { RequestView } from "../../../cel/request-view.ts";
import type { GlobalDecider, GlobalLimit } from "../../../ir/global-limit.ts";
import type { TokenUsage } from "../../../ir/usage.ts";
import type { CounterTable } from "../counter-table.ts";
import { deniedResponse } from "../denied-response.ts";
import { limitHeaders } from "../headers.ts";
import { type Admission, compileLimits, type Denied, type Lease, type LimitSet } from "../local-limiter.ts";
import type { LimitState } from "../window.ts";
import {
  backendHeaders,
  certainMs,
  type LimitView,
  type Refusal,
  refusalHeaders,
  viewOfPass,
} from "./answer-headers.ts";
import { chargesOf, type PlannedCall, questionsOf, type TokenCharge } from "./calls.ts";
import {
  type CompiledDescriptor,
  chargeOf,
  compileDescriptor,
  costsTooMuch,
  describeRequest,
  keyOf,
  type RequestDescriptor,
} from "./descriptors.ts";
import { areValuesTooLong } from "./call-size.ts";
import type { RateLimitAnswer } from "./messages.ts";
import type { CallWatcher } from "./call-watcher.ts";
import type { Answer, ServiceClient } from "./service-client.ts";

/** What the gates of a worker share. */
export interface GateServices {
  readonly clock: Clock;
  readonly counters: CounterTable;
}

/** What one limit says of a request. */
export type Verdict = Passed | Refused | Undecided;

export interface Passed {
  readonly kind: "passed";
  readonly by: GlobalDecider;
  /** For headers; undefined where nothing is known. */
  readonly view: LimitView | undefined;
  /** For the backend, flat. */
  readonly backendHeaders: readonly string[];
  /** Of the counters that stood in for the service. */
  readonly lease: Lease | undefined;
  /** Token budgets that the response is charged to. */
  readonly descriptors: readonly RequestDescriptor[];
}

export interface Refused {
  readonly kind: "refused";
  readonly by: GlobalDecider;
  /** Flat. */
  readonly headers: readonly string[];
  readonly body: Buffer | string;
  /** What the service was asked about. */
  readonly descriptors: readonly RequestDescriptor[];
  /** What it answered; undefined where it did not. */
  readonly answer: RateLimitAnswer | undefined;
  /** What stood in for it. */
  readonly denied: Denied | undefined;
}

/** The service failed, and the failure mode lets nothing pass. */
export interface Undecided {
  readonly kind: "undecided";
  readonly by: "failureMode";
  /** What the service was to be asked about. */
  readonly descriptors: readonly RequestDescriptor[];
}

/** A refusal is remembered to its reset, but no longer than this: someone may have raised the limit. */
const longestMemoryMs = 60_000;

const nothing: readonly never[] = [];

export class LimitGate {
  readonly limit: GlobalLimit;
  readonly needsBody: boolean;
  /** Whether responses must be read for their token usage. */
  readonly countsTokens: boolean;
  readonly #services: GateServices;
  readonly #client: ServiceClient;
  readonly #descriptors: readonly CompiledDescriptor[];
  readonly #fallback: LimitSet;

  constructor(limit: GlobalLimit, client: ServiceClient, services: GateServices) {
    this.limit = limit;
    this.#client = client;
    this.#services = services;
    this.#descriptors = limit.descriptors.map((descriptor) => compileDescriptor(descriptor, limit.target));
    this.#fallback = compileLimits(limit.fallback, services.counters);
    this.needsBody = this.#descriptors.some(({ needsBody }) => needsBody);
    this.countsTokens = this.#fallback.countsTokens || limit.descriptors.some(({ counts }) => counts === "tokens");
  }

  /** Whether the limit is enforced, and what the request costs takes too much work to compute. */
  costsTooMuch(view: RequestView): boolean {
    return this.limit.mode === "Enforce" && this.#descriptors.some((descriptor) => costsTooMuch(descriptor, view));
  }

  /**
   * What the service is to be asked about a request; `tooLong` where its values are longer than a call may have. A limit in
   * shadow mode does not apply to such a request, since it refuses none.
   */
  describe(view: RequestView): readonly RequestDescriptor[] | "tooLong" {
    const descriptors: RequestDescriptor[] = [];
    for (const compiled of this.#descriptors) {
      const described = describeRequest(compiled, view);
      if (described !== undefined) descriptors.push(described);
    }
    if (!areValuesTooLong(descriptors)) return descriptors;
    return this.limit.mode === "Enforce" ? "tooLong" : nothing;
  }

  /**
   * Decides; `done` hears of it once, perhaps at once, at the latest when the limit's timeout is over.
   *
   * @param descriptors of `describe`
   * @param watcher of a request that is logged in detail.
   */
  decide(
    view: RequestView,
    descriptors: readonly RequestDescriptor[],
    done: (verdict: Verdict) => void,
    watcher?: CallWatcher,
  ): void {
    if (descriptors.length === 0) {
      done(passed("none", descriptors));
      return;
    }
    const refused = this.#recall(descriptors);
    if (refused !== undefined) done(refused);
    else this.#ask(view, descriptors, done, watcher);
  }

  /** Charges what a response has used to the token budgets of a request that passed. */
  charge({ by, descriptors, lease }: Passed, view: RequestView, usage: TokenUsage): void {
    const nowMs = this.#services.clock.monotonicMs();
    if (by !== "learned") lease?.charge(usage.total, nowMs);
    const charges: TokenCharge[] = [];
    for (const descriptor of descriptors) {
      const { counts, index } = descriptor.compiled.descriptor;
      const hits = counts === "tokens" ? chargeOf(descriptor.compiled, view, usage.total) : 0;
      if (hits === 0) continue;
      charges.push({ descriptor, hits });
      // What stands in for the service is charged as the service would be.
      if (by === "learned") lease?.chargeEntry(index, hits, nowMs);
    }
    if (charges.length === 0) return;
    for (const { method, call } of chargesOf(this.limit, charges, by === "service")) this.#client.charge(method, call);
  }

  #ask(
    view: RequestView,
    descriptors: readonly RequestDescriptor[],
    done: (verdict: Verdict) => void,
    watcher: CallWatcher | undefined,
  ): void {
    const questions = questionsOf(this.limit, descriptors);
    const [question] = questions;
    if (question === undefined) {
      done(passed("none", descriptors));
    } else if (questions.length === 1 && watcher === undefined) {
      this.#client.ask(question.method, question.call, this.limit.timeoutMs, (answer) => {
        done(this.#judge(view, descriptors, questions, [answer]));
      });
    } else this.#askAll(view, descriptors, questions, done, watcher);
  }

  #askAll(
    view: RequestView,
    descriptors: readonly RequestDescriptor[],
    questions: readonly PlannedCall[],
    done: (verdict: Verdict) => void,
    watcher: CallWatcher | undefined,
  ): void {
    const { clock } = this.#services;
    const startMs = clock.monotonicMs();
    const answers: Answer[] = [];
    let open = questions.length;
    questions.forEach((question, at) => {
      watcher?.asked(this.limit, question);
      this.#client.ask(question.method, question.call, this.limit.timeoutMs, (answer) => {
        watcher?.answered(this.limit, question, answer, clock.monotonicMs() - startMs);
        answers[at] = answer;
        open--;
        if (open === 0) done(this.#judge(view, descriptors, questions, answers));
      });
    });
  }

  /** A refusal decides, whatever became of the other calls; then a failure; only where all answers agree it passes. */
  #judge(
    view: RequestView,
    descriptors: readonly RequestDescriptor[],
    questions: readonly PlannedCall[],
    answers: readonly Answer[],
  ): Verdict {
    const nowMs = this.#services.clock.monotonicMs();
    const good: RateLimitAnswer[] = [];
    for (let at = 0; at < answers.length; at++) {
      const answer = answers[at];
      if (answer?.kind !== "answered") continue;
      this.#learn(questions[at], answer.answer, nowMs);
      if (answer.answer.overallCode === "OVER_LIMIT") return this.#refuse(descriptors, answer.answer, nowMs);
      good.push(answer.answer);
    }
    const [first] = good;
    if (first === undefined || good.length < answers.length) return this.#standIn(view, descriptors);
    return {
      kind: "passed",
      by: "service",
      view: nearest(good.map(viewOfPass)),
      backendHeaders: good.length === 1 ? backendHeaders(first) : good.flatMap(backendHeaders),
      lease: undefined,
      descriptors,
    };
  }

  /** Only what could ever be used: a fallback of the policy's own comes before what is learned. */
  #learn(question: PlannedCall | undefined, answer: RateLimitAnswer, nowMs: number): void {
    if (question === undefined || this.limit.failureMode !== "Local" || !this.#fallback.isEmpty) return;
    this.#client.learned.learn(this.limit, question.about, answer, nowMs);
  }

  #refuse(descriptors: readonly RequestDescriptor[], answer: RateLimitAnswer, nowMs: number): Refused {
    const refusal: Refusal = { answer, atMs: nowMs };
    const lastsMs = Math.min(certainMs(answer.statuses), longestMemoryMs);
    if (lastsMs > 0) this.#client.refusals.set(this.#questionKey(descriptors), refusal, nowMs + lastsMs);
    return this.#refused("service", refusal, descriptors, nowMs);
  }

  #recall(descriptors: readonly RequestDescriptor[]): Refused | undefined {
    const { refusals } = this.#client;
    if (refusals.isEmpty) return undefined;
    const nowMs = this.#services.clock.monotonicMs();
    const refusal = refusals.get(this.#questionKey(descriptors), nowMs);
    return refusal === undefined ? undefined : this.#refused("cache", refusal, descriptors, nowMs);
  }

  /**
   * All that the service is asked, so that an edit of the policy asks anew. All descriptors together: one that was over
   * its limit need not have been the one that refused.
   */
  #questionKey(descriptors: readonly RequestDescriptor[]): string {
    let key = "";
    for (const descriptor of descriptors) {
      const { limitOverride } = descriptor.compiled.descriptor;
      key += `${keyOf(this.limit.domain, descriptor)} ×${descriptor.hits}`;
      key += limitOverride === undefined ? "\n" : ` of ${limitOverride.requestsPerUnit}/${limitOverride.unit}\n`;
    }
    return key;
  }

  #refused(
    by: "service" | "cache",
    refusal: Refusal,
    descriptors: readonly RequestDescriptor[],
    nowMs: number,
  ): Refused {
    const headers = refusalHeaders(refusal, nowMs, this.limit.envoyRatelimitedHeader === "Always");
    const { answer } = refusal;
    const body = answer.rawBody ?? "rate limit exceeded";
    return { kind: "refused", by, headers, body, descriptors, answer, denied: undefined };
  }

  /** The service has failed. */
  #standIn(view: RequestView, descriptors: readonly RequestDescriptor[]): Verdict {
    const { failureMode } = this.limit;
    if (failureMode === "Closed") return { kind: "undecided", by: "failureMode", descriptors };
    if (failureMode === "Open") return passed("failureMode", descriptors);
    const { clock, counters } = this.#services;
    const nowMs = clock.monotonicMs();
    if (!this.#fallback.isEmpty) return locally("fallback", this.#fallback.admit(view, nowMs), descriptors);
    const limits = this.#client.learned.limitsOf(this.limit, descriptors, nowMs);
    if (limits.length === 0) return passed("failureMode", descriptors);
    return locally("learned", compileLimits(limits, counters).admit(view, nowMs), descriptors);
  }
}

function passed(by: GlobalDecider, descriptors: readonly RequestDescriptor[]): Passed {
  return { kind: "passed", by, view: undefined, backendHeaders: nothing, lease: undefined, descriptors };
}

/** What in-process counters decided; it looks like any local limit to the client. */
function locally(by: GlobalDecider, admission: Admission, descriptors: readonly RequestDescriptor[]): Verdict {
  if (admission.kind === "denied") {
    const { rawHeaders, body } = deniedResponse(admission);
    return { kind: "refused", by, headers: rawHeaders, body, descriptors, answer: undefined, denied: admission };
  }
  const { state, lease } = admission;
  return { kind: "passed", by, view: viewOfState(state), backendHeaders: nothing, lease, descriptors };
}

/** Of in-process counters. */
export function viewOfState(state: LimitState | undefined): LimitView | undefined {
  if (state === undefined) return undefined;
  return {
    limitHeaders: limitHeaders(state),
    otherHeaders: nothing,
    share: state.remaining / Math.max(1, state.limit),
  };
}

/** The limit headers of the one nearest to exhaustion, and all the other headers. */
export function nearest(views: readonly LimitView[]): LimitView | undefined {
  const [first, ...rest] = views;
  if (first === undefined || rest.length === 0) return first;
  const closest = views.reduce((a, b) => ((b.share ?? Infinity) < (a.share ?? Infinity) ? b : a));
  return { ...closest, otherHeaders: views.flatMap(({ otherHeaders }) => otherHeaders) };
}
