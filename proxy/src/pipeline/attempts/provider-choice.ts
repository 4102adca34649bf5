/**
 * The providers of one request to a Backend with several (`spec.ai.providers`): which one is next, and what their
 * responses say of their health and quota. Each is chosen once: first the available ones of the lowest priority by
 * weight, and the failing ones last. One that is out of quota is not chosen.
 */
import { fieldOf } from "@gatewayproxy/http/fields";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { StreamedError } from "../../llm/provider-error.ts";
import { type QuotaReading, readQuota } from "../../llm/provider-quota.ts";
import type { UpstreamFailure } from "../../upstream/failure.ts";
import { clientNumber } from "../../upstream/provider-states.ts";
import type { CompiledProvider, ProvidersTarget } from "../compiled-rule.ts";
import { loopDetected } from "../local-replies.ts";
import { isJson } from "./fields.ts";

/** The list of a Backend, and the client of one request. */
export interface ProviderChoiceOptions {
  /** Times the resets of quotas. */
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly list: ProvidersTarget;
  /** The verified identity of the client, or its address. */
  readonly client: string;
}

/** The choice for one request. A provider is chosen by `next`, and gets its attempt later. */
export class ProviderChoice {
  readonly #options: ProviderChoiceOptions;
  readonly #client: number;
  readonly #tried = new Set<CompiledProvider>();
  #current: CompiledProvider | undefined;
  #sentMs = 0;
  /** The response of the current provider shows a failure, or that its quota is used up. */
  #isDenied = false;

  constructor(options: ProviderChoiceOptions) {
    this.#options = options;
    this.#client = clientNumber(options.client);
  }

  get list(): ProvidersTarget {
    return this.#options.list;
  }

  /** The provider that was chosen last. */
  get current(): CompiledProvider | undefined {
    return this.#current;
  }

  /** Whether `next` would choose one. */
  get hasNext(): boolean {
    return this.#candidates().length > 0;
  }

  /** Chooses the next provider; undefined if none is left. */
  next(): CompiledProvider | undefined {
    const { list } = this.#options;
    const chosen = byWeight(list, this.#candidates());
    if (chosen === undefined) return undefined;
    this.#tried.add(chosen);
    this.#current = chosen;
    return chosen;
  }

  /** Begins a further round, in which each provider may be chosen again. */
  restart(): void {
    this.#tried.clear();
  }

  /** Time until the first reset of a provider that is out of quota, in milliseconds. */
  get resetMs(): number {
    const nowMs = this.#options.clock.monotonicMs();
    return Math.min(...this.list.providers.map(({ state }) => state.outOfQuotaForMs(nowMs)));
  }

  /** An attempt at the current provider begins. */
  onSend(): void {
    this.#sentMs = this.#options.clock.monotonicMs();
    this.#isDenied = false;
    this.#current?.state.onSend(this.#client, this.#sentMs);
  }

  /** Whether a response may say only in its body when the quota of the current provider is reset. */
  saysResetInBody(status: number, headers: readonly string[]): boolean {
    if (status !== 429 || this.#current?.hasOwnQuota !== true || !isPlainJson(headers)) return false;
    return readQuota(status, headers, this.#options.clock.nowMs()).resetMs === undefined;
  }

  /**
   * The current provider has responded.
   *
   * @param headers flat, names in lower case.
   * @param body where `saysResetInBody`, as far as it has arrived.
   */
  onHead(status: number, headers: readonly string[], body: string): void {
    this.#note(status, () => readQuota(status, headers, this.#options.clock.nowMs(), body));
  }

  /** The current provider has begun a stream with an error. */
  onError({ status, resetMs }: StreamedError): void {
    this.#note(status, () => ({ isUsedUp: status === 429, resetMs }));
  }

  #note(status: number, quotaOf: () => QuotaReading): void {
    const { clock, random } = this.#options;
    const { state, hasOwnQuota = false } = this.#current ?? {};
    const nowMs = clock.monotonicMs();
    if (status >= 500) state?.onFailure(this.#client, nowMs, random());
    this.#isDenied = status === 429 || status >= 500;
    // The quota of a key of the client is no quota of others.
    if (!hasOwnQuota) return;
    const quota = quotaOf();
    if (!quota.isUsedUp) return;
    this.#isDenied = true;
    state?.onOutOfQuota(this.#client, quota.resetMs, nowMs);
  }

  /** The response of the current provider has begun, which is a success unless it says otherwise. */
  onBegun(): void {
    if (this.#isDenied) return;
    this.#current?.state.onSuccess(this.#client, this.#sentMs, this.#options.clock.monotonicMs());
  }

  /** The attempt at the current provider has failed before its response. */
  onFailure({ kind }: UpstreamFailure): void {
    if (kind !== "connect" && kind !== "reset" && kind !== "timeout") return;
    const { clock, random } = this.#options;
    this.#current?.state.onFailure(this.#client, clock.monotonicMs(), random());
  }

  /** The available ones of the lowest priority; if there is none, the failing ones of the lowest priority. */
  #candidates(): readonly CompiledProvider[] {
    const nowMs = this.#options.clock.monotonicMs();
    let best: CompiledProvider[] = [];
    let bestRank = Number.POSITIVE_INFINITY;
    for (const provider of this.list.providers) {
      if (this.#tried.has(provider)) continue;
      const condition = provider.state.condition(this.#client, nowMs);
      if (condition === "outOfQuota") continue;
      const rank = provider.priority + (condition === "failing" ? failingRank : 0);
      if (rank > bestRank) continue;
      if (rank < bestRank) best = [];
      bestRank = rank;
      best.push(provider);
    }
    return best;
  }
}

/** Greater than every priority. */
const failingRank = 1_000;

/**
 * Chooses by smooth weighted round robin, as `routing/weighted.ts`, among those that can be used now. Its counters stay
 * between requests.
 */
function byWeight(
  { rotation }: ProvidersTarget,
  candidates: readonly CompiledProvider[],
): CompiledProvider | undefined {
  if (candidates.length <= 1) return candidates[0];
  let chosen: CompiledProvider | undefined;
  let highest = Number.NEGATIVE_INFINITY;
  let total = 0;
  for (const provider of candidates) {
    const counter = (rotation[provider.place] ?? 0) + provider.weight;
    rotation[provider.place] = counter;
    total += provider.weight;
    if (counter <= highest) continue;
    highest = counter;
    chosen = provider;
  }
  if (chosen !== undefined) rotation[chosen.place] = highest - total;
  return chosen;
}

function isPlainJson(headers: readonly string[]): boolean {
  return isJson(headers) && (fieldOf(headers, "content-encoding") ?? "identity") === "identity";
}

/** Whether a provider with this status cannot respond now, while another one may. A loop ends with its first 508. */
export function movesRequests(status: number): boolean {
  return status === 429 || (status >= 500 && status !== loopDetected.status);
}
