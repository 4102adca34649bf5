/** An entry of a policy in the form that decides requests. It holds no state: counters are in the counter table. */
import { microUnitsNear } from "@gatewayproxy/runtime/money";
import { type Expression, parseExpression, type Use } from "../../cel/expression.ts";
import type { RequestView } from "../../cel/request-view.ts";
import type { Allowance } from "../../cel/request-work.ts";
import { isChargedLater, type LimitDecision, type LocalLimit, maxSpend } from "../../ir/limit.ts";
import { isNamed, type LimitList, listsLimits, nameOf, sendsFamily } from "./shown-limit.ts";
import { viewForKeys } from "./counted-model.ts";
import { isCostTooCostly, unitsOf, viewWithUsage } from "./cost.ts";
import type { CounterId, EntryId } from "./counter-id.ts";
import type { CounterTable } from "./counter-table.ts";
import { type Budget, budgetOf } from "./window.ts";

/** A compiled entry; all rules that have the limit share it. */
export class LimitEntry {
  readonly limit: LocalLimit;
  readonly id: EntryId;
  /** Of a request for which no expression gives another amount. */
  readonly budget: Budget;
  readonly key: Expression | undefined;
  readonly when: Expression | undefined;
  readonly amount: Expression | undefined;
  readonly cost: Expression | undefined;
  /** The counter for all requests, or for those without a key value. */
  readonly shared: CounterId;
  readonly isEnforced: boolean;
  /** Whether `x-ratelimit-limit`, `-remaining` and `-reset` may show it. */
  readonly isInHeaders: boolean;
  /** Whether a header family that lists limits shows it. */
  readonly isListed: boolean;
  /** Its name in responses, if no other entry of the rule has it; empty if no response names it. */
  readonly name: string;
  /** False if the response is charged: tokens or spend are counted. */
  readonly countsRequests: boolean;
  /** The units that must remain for a request to be allowed: those that it counts, or 1 for tokens and spend. */
  readonly units: number;
  readonly allowed: LimitDecision;
  readonly denied: LimitDecision;
  readonly notApplied: LimitDecision;

  /** Throws if an expression does not parse, which the configuration's validation excludes. */
  constructor(limit: LocalLimit, id: EntryId, table: CounterTable, list: LimitList) {
    this.limit = limit;
    this.id = id;
    this.budget = budgetOf(limit, table.clock);
    this.countsRequests = !isChargedLater(limit.counts);
    this.key = compileField("key", limit.key, { phase: "body", result: "text" });
    this.when = compileField("when", limit.when, { phase: "body", result: "condition" });
    this.amount = compileField("limit", limit.amountFrom, { phase: "body", result: "number" });
    const costPhase = this.countsRequests ? "body" : "response";
    this.cost = compileField("cost", limit.cost, { phase: costPhase, result: "number" });
    this.shared = table.counterId(id, undefined);
    this.isEnforced = limit.mode === "Enforce";
    this.isInHeaders = this.isEnforced && sendsFamily(limit, "XRateLimit");
    this.isListed = this.isEnforced && listsLimits(limit);
    this.name = isNamed(limit) ? nameOf(limit, list) : "";
    this.units = limit.units ?? 1;
    this.allowed = { limit, outcome: "allowed" };
    this.denied = { limit, outcome: this.isEnforced ? "denied" : "shadowDenied" };
    this.notApplied = { limit, outcome: "notApplied" };
  }

  /** Whether requests hold an estimate of their cost. */
  get reserves(): boolean {
    return this.limit.reserves === true;
  }

  get expressions(): readonly Expression[] {
    return [this.key, this.when, this.amount, this.cost].filter((expression) => expression !== undefined);
  }

  /** Whether the entry treats every request alike until the response. */
  get isFixed(): boolean {
    return this.expressions.length === 0 && !this.reserves;
  }

  /**
   * Whether the entry depends on the body of the request: an expression reads it, or the price is that of its model.
   */
  get needsBody(): boolean {
    if (this.limit.counts === "spend" || this.reserves) return true;
    return this.expressions.some(({ phase, readsBody }) => phase === "body" || readsBody);
  }

  /** A condition without a value does not exempt a request. */
  appliesTo(view: RequestView): boolean {
    return this.when?.evaluate(view, this.#allowanceOf(view)) !== "false";
  }

  /** Whether the entry must deny a request, since its cost takes too much work to compute. */
  costsTooMuch(view: RequestView): boolean {
    return this.isEnforced && isCostTooCostly(this.cost, this.limit.counts, view, this.limit.target);
  }

  /** Whether the entry denies requests for models without a price. */
  get requiresPrice(): boolean {
    return this.isEnforced && this.limit.counts === "spend" && this.limit.allowsUnpriced !== true;
  }

  counterOf(view: RequestView, table: CounterTable): CounterId {
    const keyView = this.key?.readsBody === true ? viewForKeys(view) : view;
    const key = this.key?.evaluate(keyView, this.#allowanceOf(view));
    return key === undefined ? this.shared : table.counterId(this.id, key);
  }

  /** The budget of the counter of a request. */
  budgetOf(view: RequestView): Budget {
    const amount = amountOf(this.amount?.evaluate(view, this.#allowanceOf(view)), this.limit);
    if (amount === undefined) return this.budget;
    return { capacity: shareOf(amount, this.limit.replicas), windows: this.budget.windows };
  }

  /** The units that a request counts; for tokens and spend those that must remain for it. */
  unitsOf(view: RequestView): number {
    return this.countsRequests ? (unitsOf(this.cost, view, this.limit.target) ?? this.units) : this.units;
  }

  /**
   * The units that a request holds until its response is charged: at most the capacity, so that one request cannot hold
   * more, and fits where nothing is counted.
   */
  heldUnitsOf(view: RequestView, { capacity }: Budget): number {
    const estimate = view.llm?.estimate;
    if (!this.reserves || estimate === undefined) return 0;
    const own = this.limit.counts === "spend" ? (estimate.cost ?? 0) : estimate.total;
    const cost =
      this.cost === undefined ? undefined : unitsOf(this.cost, viewWithUsage(view, estimate), this.limit.target);
    return Math.min(cost ?? own, capacity);
  }

  #allowanceOf({ work }: RequestView): Allowance | undefined {
    return work?.allowanceOf(this.limit.target);
  }
}

/** A share is rounded down, so that all replicas together do not exceed the amount, as far as it can be divided. */
function shareOf(amount: number, replicas = 1): number {
  return amount === 0 ? 0 : Math.max(1, Math.floor(amount / replicas));
}

/** The largest amount of an entry, as in its fields. */
const maxAmount = 2 ** 31 - 1;

/**
 * Returns a whole number of units from 0 to the largest that the fields of the entry accept; undefined for a negative
 * number or no number. Fractions are rounded down. Spend is given in the currency, and rounded to micro-units.
 */
function amountOf(value: string | undefined, { counts, window }: LocalLimit): number | undefined {
  const given = value === undefined || value.trim() === "" ? Number.NaN : Number(value);
  const amount = counts === "spend" ? microUnitsNear(given) : Math.floor(given);
  return amount >= 0 ? Math.min(amount, counts === "spend" ? maxSpend(window?.kind) : maxAmount) : undefined;
}

function compileField(field: string, source: string | undefined, use: Use): Expression | undefined {
  if (source === undefined) return undefined;
  const parsed = parseExpression(source, use);
  if (parsed.ok) return parsed.value;
  throw new Error(`limit ${field} ${source}: ${parsed.problems.map(({ message }) => message).join("; ")}`);
}

/**
 * Entries by table and limit. A policy on a Gateway applies to every rule, so that thousands of rules share its
 * entries.
 */
const entriesByTable = new WeakMap<CounterTable, WeakMap<LocalLimit, LimitEntry>>();

/** Returns the entry of a limit, compiled once for each table. */
export function entryOf(limit: LocalLimit, id: EntryId, table: CounterTable, list: LimitList): LimitEntry {
  const ofTable = entriesByTable.get(table) ?? new WeakMap<LocalLimit, LimitEntry>();
  entriesByTable.set(table, ofTable);
  const entry = ofTable.get(limit) ?? new LimitEntry(limit, id, table, list);
  ofTable.set(limit, entry);
  return entry;
}
