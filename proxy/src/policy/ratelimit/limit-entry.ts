/** An entry of a policy in the form that decides requests. It holds no state: counters are in the counter table. */
import { type Expression, parseExpression, type Use } from "../../cel/expression.ts";
import type { RequestView } from "../../cel/request-view.ts";
import type { LimitDecision, LocalLimit } from "../../ir/limit.ts";
import type { CounterId, EntryId } from "./counter-id.ts";
import type { CounterTable } from "./counter-table.ts";
import { type Budget, budgetOf } from "./window.ts";

/** A compiled entry; all rules that have the limit share it. */
export class LimitEntry {
  readonly limit: LocalLimit;
  readonly id: EntryId;
  readonly budget: Budget;
  readonly key: Expression | undefined;
  /** The counter for all requests, or for those without a key value. */
  readonly shared: CounterId;
  readonly isEnforced: boolean;
  readonly countsRequests: boolean;
  /** The units that must remain for a request to be allowed: those that it counts, or 1 for tokens. */
  readonly units: number;
  readonly allowed: LimitDecision;
  readonly denied: LimitDecision;

  /** Throws if an expression does not parse, which the configuration's validation excludes. */
  constructor(limit: LocalLimit, id: EntryId, table: CounterTable) {
    this.limit = limit;
    this.id = id;
    this.budget = budgetOf(limit);
    this.key =
      limit.key === undefined
        ? undefined
        : compileExpression("limit key", limit.key, { phase: "head", result: "text" });
    this.shared = table.counterId(id, undefined);
    this.isEnforced = limit.mode === "Enforce";
    this.countsRequests = limit.counts === "requests";
    this.units = limit.units ?? 1;
    this.allowed = { limit, outcome: "allowed" };
    this.denied = { limit, outcome: this.isEnforced ? "denied" : "shadowDenied" };
  }

  /** Returns the counter of a request. */
  counterOf(view: RequestView, table: CounterTable): CounterId {
    const key = this.key?.evaluate(view, view.work?.allowanceOf(this.limit.target));
    return key === undefined ? this.shared : table.counterId(this.id, key);
  }
}

/**
 * Compiles an expression of a limit. Throws if it does not parse, which the configuration's validation excludes.
 *
 * @param field what the error calls it.
 */
export function compileExpression(field: string, source: string, use: Use): Expression {
  const parsed = parseExpression(source, use);
  if (!parsed.ok) throw new Error(`${field} ${source}: ${parsed.problems.map(({ message }) => message).join("; ")}`);
  return parsed.value;
}

/**
 * Entries by table and limit. A policy on a Gateway applies to every rule, so that thousands of rules share its
 * entries.
 */
const entriesByTable = new WeakMap<CounterTable, WeakMap<LocalLimit, LimitEntry>>();

/** Returns the entry of a limit, compiled once for each table. */
export function entryOf(limit: LocalLimit, id: EntryId, table: CounterTable): LimitEntry {
  const ofTable = entriesByTable.get(table) ?? new WeakMap<LocalLimit, LimitEntry>();
  entriesByTable.set(table, ofTable);
  const entry = ofTable.get(limit) ?? new LimitEntry(limit, id, table);
  ofTable.set(limit, entry);
  return entry;
}
