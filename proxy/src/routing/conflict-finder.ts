/**
 * Finds the conflicts of configurations one after the other. Routes conflict only with routes of their family: those
 * with which they have a hostname in common, directly or by way of others (`families.ts`). The conflicts of a family
 * are kept while none of its routes changes.
 *
 * A kept result must not depend on the budget, which all families share. So families are compared without regard to
 * each other as long as the budget suffices for all of them, which depends on what each spends, and not on their order.
 * If it does not suffice, everything is compared together, by `findRouteConflicts`, and the whole result stands until a
 * route changes.
 */
import { differenceBetween, type Pages } from "@gatewayproxy/runtime/lists";
import { hasSameItems } from "@gatewayproxy/runtime/memoised";
import type { Steps } from "@gatewayproxy/runtime/steps";
import { type Budget, budgetFor, Meter } from "./conflicts/budget.ts";
import { type ConflictSite, contestsOf, type Contests, coversListener, HostOwners } from "./conflicts/contest.ts";
import type { ConflictListener, ConflictRoute, FoundConflicts } from "./conflicts/findings.ts";
import { JoinedConflicts, type KeptLosses } from "./conflicts/joined-conflicts.ts";
import { Families, type Family, itemsByList, type Kinship } from "./families.ts";
import { MatchReader } from "./match-entry.ts";
import { Pace } from "./pace.ts";
import type { PathRules } from "./path-rules.ts";
import { compareAll, demandsOf, findRouteConflicts, workPerStep } from "./route-conflicts.ts";

/** A listener with its routes in pages. */
export interface ComparedListener extends ConflictSite {
  readonly routes: Pages<ConflictRoute>;
}

/** What a namespace demands of the budget, and what it has spent. */
interface Spending {
  readonly namespace: string;
  demand: number;
  lookUps: number;
  stored: number;
}

/** The kept result of a family. */
interface FamilyConflicts {
  readonly inputSize: number;
  readonly spending: readonly Spending[];
  readonly losses: readonly KeptLosses[];
}

type ConflictFamily = Family<ConflictRoute, FamilyConflicts>;

/** All families of a configuration, and what they spend together. */
interface KnownFamilies {
  readonly families: Families<ConflictRoute, FamilyConflicts>;
  readonly owners: HostOwners;
  readonly reader: MatchReader;
  readonly budgetOf: BudgetOf;
  inputSize: number;
  readonly spending: Map<string, Spending>;
  readonly joined: JoinedConflicts;
}

type BudgetOf = typeof budgetFor;

interface Last {
  readonly pathRules: PathRules;
  readonly listeners: readonly ComparedListener[];
  readonly found: FoundConflicts;
  /** Undefined if the budget did not suffice. */
  readonly known: KnownFamilies | undefined;
  /** The size of the texts of the reader when everything was read. */
  readonly firstSize: number;
}

/** Texts of routes that are gone stay in the reader until they are more than all others and this, in characters. */
const spareSize = 2 ** 20;

/** Finds the conflicts of each configuration; keeps those of families without a changed route. */
export class ConflictFinder {
  readonly #budgetOf: BudgetOf;
  #last: Last | undefined;

  /** @param budgetOf for tests. */
  constructor(budgetOf: BudgetOf = budgetFor) {
    this.#budgetOf = budgetOf;
  }

  /** @param pathRules how the paths of requests are normalised. */
  *find(listeners: readonly ComparedListener[], pathRules: PathRules): Steps<FoundConflicts> {
    const last = this.#last;
    // Families change in place, so they are not kept if the computation does not end.
    this.#last = undefined;
    const next =
      last !== undefined && isOfSameSites(last, listeners, pathRules) ? yield* following(last, listeners) : undefined;
    this.#last = next ?? (yield* fromStart(listeners, pathRules, this.#budgetOf));
    return this.#last.found;
  }
}

function isOfSameSites(last: Last, listeners: readonly ComparedListener[], pathRules: PathRules): boolean {
  return last.pathRules === pathRules && areAlike(last.listeners, listeners, isSameSite);
}

function isSameSite(a: ConflictSite, b: ConflictSite): boolean {
  return a.key === b.key && a.hostname === b.hostname && hasSameItems(a.sockets, b.sockets);
}

function isAlike(a: ConflictRoute, b: ConflictRoute): boolean {
  return (
    a.creationTimestamp === b.creationTimestamp &&
    hasSameItems(a.hostnames, b.hostnames) &&
    // Matches are plain data.
    (a.rules === b.rules || JSON.stringify(a.rules) === JSON.stringify(b.rules))
  );
}

/** Whether the routes of two pages are alike. Unchanged pages are the same lists. */
function areSameRoutes(a: readonly ConflictRoute[], b: readonly ConflictRoute[]): boolean {
  return a === b || areAlike(a, b, (one, other) => one === other || (one.key === other.key && isAlike(one, other)));
}

function areAlike<Item>(a: readonly Item[], b: readonly Item[], are: (a: Item, b: Item) => boolean): boolean {
  return (
    a.length === b.length &&
    a.every((item, at) => {
      const other = b[at];
      return other !== undefined && are(item, other);
    })
  );
}

/** Returns the conflicts after a change of routes; undefined if everything has to be compared. */
function* following(last: Last, listeners: readonly ComparedListener[]): Steps<Last | undefined> {
  const { known, pathRules, firstSize } = last;
  if (known === undefined) {
    const isSame = areAlike(last.listeners, listeners, (a, b) => areAlike(a.routes, b.routes, areSameRoutes));
    return isSame ? { ...last, listeners } : undefined;
  }
  const before = last.listeners.map(({ routes }) => routes);
  const isFound = yield* update(known, before, listeners);
  if (!isFound || known.reader.size > 2 * firstSize + spareSize) return undefined;
  return { pathRules, listeners, found: { byListener: known.joined.byListener, unexamined: 0 }, known, firstSize };
}

function* fromStart(listeners: readonly ComparedListener[], pathRules: PathRules, budgetOf: BudgetOf): Steps<Last> {
  const reader = new MatchReader(pathRules);
  const known = yield* knownFamilies(listeners, reader, budgetOf);
  const firstSize = reader.size;
  if (known !== undefined) {
    return { pathRules, listeners, found: { byListener: known.joined.byListener, unexamined: 0 }, known, firstSize };
  }
  const whole = listeners.map((listener): ConflictListener => ({ ...listener, routes: listener.routes.flat() }));
  return {
    pathRules,
    listeners,
    found: yield* findRouteConflicts(whole, pathRules, reader, budgetOf),
    known,
    firstSize,
  };
}

function* knownFamilies(
  listeners: readonly ComparedListener[],
  reader: MatchReader,
  budgetOf: BudgetOf,
): Steps<KnownFamilies | undefined> {
  const known: KnownFamilies = {
    families: new Families(kinshipAt(listeners)),
    owners: new HostOwners(listeners),
    reader,
    budgetOf,
    inputSize: 0,
    spending: new Map(),
    joined: new JoinedConflicts(),
  };
  return (yield* update(known, [], listeners)) ? known : undefined;
}

/** Routes compete at a hostname, and at all hostnames that cover the hostname of a listener. */
function kinshipAt(listeners: readonly ConflictSite[]): Kinship<ConflictRoute> {
  return {
    keyOf: ({ key }) => key,
    namesOf: ({ hostnames }, at) => {
      const all = hostnames.length === 0 ? [""] : hostnames;
      const { key, hostname } = listeners[at] ?? {};
      const isShared = all.some((each) => coversListener(each === "" ? undefined : each, hostname));
      return isShared ? [...all, `all of ${key}`] : all;
    },
    isAlike,
  };
}

/** Compares the routes of changed families. @returns false if the budget did not suffice for all families. */
function* update(
  known: KnownFamilies,
  before: readonly Pages<ConflictRoute>[],
  listeners: readonly ComparedListener[],
): Steps<boolean> {
  const pace = new Pace(workPerStep);
  const changes = [];
  for (const [at, { routes }] of listeners.entries()) {
    const { removed, added } = differenceBetween(before[at] ?? [], routes);
    changes.push(differenceBetween(removed.flat(), added.flat()));
    if (pace.endsStep(1 + removed.length + added.length)) yield;
  }
  const { removed, added } = yield* known.families.update(changes, pace);
  for (const { value } of removed) if (value !== undefined) subtract(known, value);
  const all: {
    readonly family: ConflictFamily;
    readonly contests: Contests;
    readonly demands: ReadonlyMap<string, number>;
  }[] = [];
  for (const family of added) {
    const contests = yield* contestsOf(yield* listenersOf(family, listeners, pace), { ...known, pace });
    const demands = yield* demandsOf(contests.contests, pace);
    all.push({ family, contests, demands });
    known.inputSize += contests.inputSize;
    for (const [namespace, demand] of demands) spendingOf(known.spending, namespace).demand += demand;
  }
  const budget = budgetLeft(known);
  if (budget === undefined) return false;
  for (const { family, contests, demands } of all) {
    const own = { lookUps: new Meter(budget.lookUps), stored: new Meter(budget.stored) };
    const { comparisons } = yield* compareAll(contests.contests, own, { ...known, pace });
    if (budget.lookUps.denials + budget.stored.denials > 0) return false;
    const spending = Array.from(
      demands,
      ([namespace, demand]): Spending => ({
        namespace,
        demand,
        lookUps: own.lookUps.spent.get(namespace) ?? 0,
        stored: own.stored.spent.get(namespace) ?? 0,
      }),
    );
    const losses = comparisons.flatMap(({ contest, losses: of }) =>
      of.isEmpty ? [] : [{ listeners: contest.listeners, losses: of }],
    );
    family.value = { inputSize: contests.inputSize, spending, losses };
    for (const { namespace, lookUps, stored } of spending) {
      const total = spendingOf(known.spending, namespace);
      total.lookUps += lookUps;
      total.stored += stored;
    }
  }
  const valuesOf = (families: Iterable<ConflictFamily>) =>
    Array.from(families, ({ value }) => value?.losses ?? []).flat();
  yield* known.joined.update(valuesOf(removed), valuesOf(added), pace);
  return true;
}

/** Returns the listeners of a family with its routes, in their order. */
function* listenersOf(
  family: ConflictFamily,
  listeners: readonly ConflictSite[],
  pace: Pace,
): Steps<readonly ConflictListener[]> {
  const sorted = [...(yield* itemsByList(family, pace))].sort(([a], [b]) => a - b);
  return sorted.flatMap(([at, own]) => {
    const site = listeners[at];
    return site === undefined ? [] : [{ ...site, routes: own }];
  });
}

function spendingOf(all: Map<string, Spending>, namespace: string): Spending {
  let spending = all.get(namespace);
  if (spending === undefined) {
    spending = { namespace, demand: 0, lookUps: 0, stored: 0 };
    all.set(namespace, spending);
  }
  return spending;
}

/** Subtracts what a family demanded and spent. */
function subtract(known: KnownFamilies, { inputSize, spending }: FamilyConflicts): void {
  known.inputSize -= inputSize;
  for (const { namespace, demand, lookUps, stored } of spending) {
    const total = spendingOf(known.spending, namespace);
    total.demand -= demand;
    total.lookUps -= lookUps;
    total.stored -= stored;
    if (total.demand + total.lookUps + total.stored === 0) known.spending.delete(namespace);
  }
}

/** Returns what kept families leave of the budget of all; undefined if that is not enough for them. */
function budgetLeft({ budgetOf, inputSize, spending }: KnownFamilies): Budget | undefined {
  const budget = budgetOf(
    inputSize,
    new Map(Array.from(spending.values(), ({ namespace, demand }) => [namespace, demand])),
  );
  for (const { namespace, lookUps, stored } of spending.values()) {
    if (!budget.lookUps.spend(namespace, lookUps) || !budget.stored.spend(namespace, stored)) return undefined;
  }
  return budget;
}
