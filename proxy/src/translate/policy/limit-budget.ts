/**
 * Bounds the memory of policies in one process: limits, the product of entries and targets, and expressions, which take
 * many times the memory of their text after compilation. Namespaces share both fairly (`fair-share.ts`). Within a
 * namespace, the oldest policies have precedence.
 */
import type { ProxyPolicy } from "../../api/proxy-policy.ts";
import { FairBudget } from "../fair-share.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";
import { denialTextOf } from "./limit-responses.ts";
import { IdSet, TextIds } from "./text-ids.ts";

/**
 * Maximum of local entries, global descriptors and fallback entries, each counted once for each target. One takes some
 * 0.8 KB of the main thread and of each worker.
 */
export const maxServedLimits = 32_768;

/**
 * Maximum characters of expressions. Equal texts of a namespace count once. A character takes up to 95 bytes of each
 * worker.
 */
export const maxServedExpressionLength = 500_000;

/**
 * Maximum characters of bodies and headers of denials. Equal texts of a namespace count once. A character takes up to
 * two bytes of the main thread and of each worker.
 */
export const maxServedDenialLength = 2_000_000;

/** Maximum number of URLs of key sets. Each worker reads all of them every five minutes. */
export const maxServedKeySets = 256;

/** Maximum number of API keys, each counted once for each target. One takes some 0.6 KB of each worker. */
export const maxServedApiKeys = 32_768;

/** What the authentication of a policy takes at one target. */
export interface CredentialDemand {
  /** URLs of key sets. */
  readonly keySets: number;
  readonly apiKeys: number;
}

/** The demand of a policy without authentication. */
export const noCredentialDemand: CredentialDemand = { keySets: 0, apiKeys: 0 };

/** Texts of a namespace in one process, each counted once. */
interface Owned {
  readonly wanted: IdSet;
  readonly taken: IdSet;
}

/** The numbers of all texts. */
interface AllTexts {
  readonly expressions: TextIds;
  readonly denials: TextIds;
}

/** Collects the demands of all policies, before they are attached by `take`. */
export class LimitBudget {
  readonly #places = new Map<string, PlaceBudget>();
  readonly #texts: AllTexts = { expressions: new TextIds(), denials: new TextIds() };

  /** @param place names the process that serves the target. */
  want(place: string, policy: ProxyPolicy, demand: CredentialDemand): void {
    const known = this.#places.get(place) ?? new PlaceBudget(place, this.#texts);
    this.#places.set(place, known);
    known.want(policy, demand);
  }

  /**
   * Takes the limits, expressions and credentials of a policy at one target.
   *
   * @returns a description of the exceeded bound; undefined if they are within the share of the policy's namespace.
   */
  take(place: string, policy: ProxyPolicy, demand: CredentialDemand): string | undefined {
    return this.#places.get(place)?.take(policy, demand);
  }
}

class PlaceBudget {
  readonly #place: string;
  readonly #limits = new FairBudget(maxServedLimits);
  readonly #expressions = new FairBudget(maxServedExpressionLength);
  readonly #keySets = new FairBudget(maxServedKeySets);
  readonly #apiKeys = new FairBudget(maxServedApiKeys);
  readonly #denials = new FairBudget(maxServedDenialLength);
  readonly #sources = new Map<string, Owned>();
  readonly #denialTexts = new Map<string, Owned>();

  readonly #texts: AllTexts;

  constructor(place: string, texts: AllTexts) {
    this.#place = place;
    this.#texts = texts;
  }

  want(policy: ProxyPolicy, { keySets, apiKeys }: CredentialDemand): void {
    const { namespace } = policy.metadata;
    this.#keySets.want(namespace, keySets);
    this.#apiKeys.want(namespace, apiKeys);
    this.#limits.want(namespace, sizeOf(policy));
    const { wanted } = ownedBy(this.#sources, namespace);
    for (const source of expressionsOf(policy)) {
      const id = this.#texts.expressions.of(namespace, source);
      if (wanted.has(id)) continue;
      wanted.add(id);
      this.#expressions.want(namespace, source.length);
    }
    const denials = ownedBy(this.#denialTexts, namespace).wanted;
    const denial = denialTextOf(policy);
    const id = this.#texts.denials.of(namespace, denial);
    if (denials.has(id)) return;
    denials.add(id);
    this.#denials.want(namespace, denial.length);
  }

  take(policy: ProxyPolicy, { keySets, apiKeys }: CredentialDemand): string | undefined {
    const { namespace } = policy.metadata;
    const size = sizeOf(policy);
    if (size > this.#limits.left(namespace)) {
      return this.#excess(namespace, "limits at all targets", this.#limits, size);
    }
    const { taken } = ownedBy(this.#sources, namespace);
    const idOf = (source: string): number => this.#texts.expressions.of(namespace, source);
    const added = expressionsOf(policy).filter((source) => !taken.has(idOf(source)));
    const length = added.reduce((sum, source) => sum + source.length, 0);
    if (length > this.#expressions.left(namespace)) {
      return this.#excess(namespace, "characters of expressions", this.#expressions, length);
    }
    if (keySets > this.#keySets.left(namespace)) {
      return this.#excess(namespace, "URLs of key sets", this.#keySets, keySets);
    }
    if (apiKeys > this.#apiKeys.left(namespace)) {
      return this.#excess(namespace, "API keys at all targets", this.#apiKeys, apiKeys);
    }
    const denials = ownedBy(this.#denialTexts, namespace).taken;
    const denial = denialTextOf(policy);
    const denialId = this.#texts.denials.of(namespace, denial);
    const denialLength = denials.has(denialId) ? 0 : denial.length;
    if (denialLength > this.#denials.left(namespace)) {
      return this.#excess(namespace, "characters of responses to denials", this.#denials, denialLength);
    }
    this.#keySets.take(namespace, keySets);
    this.#apiKeys.take(namespace, apiKeys);
    this.#limits.take(namespace, size);
    this.#expressions.take(namespace, length);
    this.#denials.take(namespace, denialLength);
    for (const source of added) taken.add(idOf(source));
    denials.add(denialId);
    return undefined;
  }

  #excess(namespace: string, what: string, budget: FairBudget, amount: number): string {
    const total = budget.share(namespace) - budget.left(namespace) + amount;
    const where = this.#place === "" ? "" : ` at Gateway ${this.#place}`;
    return `namespace ${namespace} has ${total} ${what}${where}, and its share of the ${budget.capacity} that are enforced is ${budget.share(namespace)}, the oldest policies first`;
  }
}

function ownedBy(texts: Map<string, Owned>, namespace: string): Owned {
  const owned = texts.get(namespace) ?? { wanted: new IdSet(), taken: new IdSet() };
  texts.set(namespace, owned);
  return owned;
}

/** The limits of a policy at one target. */
function sizeOf({ spec }: ProxyPolicy): number {
  const { local, global } = spec.traffic.rateLimit;
  return local.length + (global?.descriptors.length ?? 0) + (global?.fallback?.length ?? 0);
}

/** The expressions of a policy, each once. */
export const expressionsOf = memoised(({ spec }: ProxyPolicy): readonly string[] => {
  const { local, global } = spec.traffic.rateLimit;
  const ofEntries = [...local, ...(global?.fallback ?? [])].flatMap(({ key, when, limit, cost }) =>
    [key, when, limit, cost].filter((source) => source !== undefined),
  );
  const ofDescriptors = (global?.descriptors ?? []).flatMap(({ entries, when, cost, limitOverride }) =>
    [...entries.map(({ expression }) => expression), when, cost, limitOverride?.expression].flatMap(
      (expression) => expression?.source ?? [],
    ),
  );
  return [...new Set([...ofEntries, ...ofDescriptors])];
});
