/**
 * Inserts calls into a syntax tree so that `cost.ts` can charge for the evaluator's own work: the rounds of a macro,
 * and lookups in a map or list by a computed key. The result of the expression does not change.
 */
import type { Expr } from "@bufbuild/cel-spec/cel/expr/syntax_pb.js";
import { textConstant } from "./check.ts";
import { internal } from "./functions.ts";

/** Counts the nodes of a tree. */
export function countNodes(expr: Expr): number {
  return childrenOf(expr).reduce((count, child) => count + countNodes(child), 1);
}

/** Whether the tree calls a function whose name meets `predicate`. */
export function callsSome(expr: Expr, predicate: (name: string) => boolean): boolean {
  const { case: kind, value } = expr.exprKind;
  if (kind === "callExpr" && predicate(value.function)) return true;
  return childrenOf(expr).some((child) => callsSome(child, predicate));
}

/** Returns a copy of the tree with the inserted calls. */
export function instrument(expr: Expr): Expr {
  const { exprKind: kind } = expr;
  switch (kind.case) {
    case "comprehensionExpr": {
      const { value } = kind;
      const { iterRange, loopCondition, loopStep } = value;
      if (iterRange === undefined || loopCondition === undefined || loopStep === undefined) return expr;
      const nodes = 4 + countNodes(loopCondition) + countNodes(loopStep);
      return withKind(expr, {
        case: "comprehensionExpr",
        value: {
          ...value,
          iterRange: call(expr, internal.iterate, [instrument(iterRange)]),
          loopCondition: call(expr, internal.step, [instrument(loopCondition), integer(expr, nodes)]),
          loopStep: instrument(loopStep),
          ...(value.accuInit !== undefined && { accuInit: instrument(value.accuInit) }),
          ...(value.result !== undefined && { result: instrument(value.result) }),
        },
      });
    }
    case "callExpr": {
      const { value } = kind;
      const args = value.args.map(instrument);
      const [operand, key] = args;
      const target = value.target === undefined ? {} : { target: instrument(value.target) };
      if (value.function === "_[_]" && operand !== undefined && key !== undefined && textConstant(key) === undefined) {
        const indexed = call(expr, internal.indexed, [operand]);
        return withKind(expr, { case: "callExpr", value: { ...value, args: [indexed, key] } });
      }
      const [pattern] = args;
      const isConstant = value.function === "matches" && pattern !== undefined && textConstant(pattern) !== undefined;
      const name = isConstant && value.target !== undefined ? internal.matches : value.function;
      return withKind(expr, { case: "callExpr", value: { ...value, ...target, function: name, args } });
    }
    case "selectExpr": {
      const { value } = kind;
      if (value.operand === undefined) return expr;
      return withKind(expr, { case: "selectExpr", value: { ...value, operand: instrument(value.operand) } });
    }
    case "listExpr": {
      const { value } = kind;
      return withKind(expr, { case: "listExpr", value: { ...value, elements: value.elements.map(instrument) } });
    }
    case "structExpr": {
      const { value } = kind;
      const entries = value.entries.map((entry) => ({
        ...entry,
        ...(entry.keyKind.case === "mapKey" && {
          keyKind: { case: "mapKey" as const, value: instrument(entry.keyKind.value) },
        }),
        ...(entry.value !== undefined && { value: instrument(entry.value) }),
      }));
      return withKind(expr, { case: "structExpr", value: { ...value, entries } });
    }
    case "constExpr":
    case "identExpr":
    case undefined:
      return expr;
  }
}

function childrenOf({ exprKind: { case: kind, value } }: Expr): readonly Expr[] {
  switch (kind) {
    case "comprehensionExpr":
      return [value.iterRange, value.accuInit, value.loopCondition, value.loopStep, value.result].flatMap(
        (child) => child ?? [],
      );
    case "callExpr":
      return value.target === undefined ? value.args : [value.target, ...value.args];
    case "selectExpr":
      return value.operand === undefined ? [] : [value.operand];
    case "listExpr":
      return value.elements;
    case "structExpr":
      return value.entries.flatMap((entry) => [
        ...(entry.keyKind.case === "mapKey" ? [entry.keyKind.value] : []),
        ...(entry.value === undefined ? [] : [entry.value]),
      ]);
    case "constExpr":
    case "identExpr":
    case undefined:
      return [];
  }
}

function withKind(expr: Expr, exprKind: Expr["exprKind"]): Expr {
  return { ...expr, exprKind };
}

/** Creates a call at the position of `at` in the source. */
function call(at: Expr, name: string, args: Expr[]): Expr {
  return withKind(at, { case: "callExpr", value: { $typeName: "cel.expr.Expr.Call", function: name, args } });
}

function integer(at: Expr, value: number): Expr {
  const constantKind = { case: "int64Value" as const, value: BigInt(value) };
  return withKind(at, { case: "constExpr", value: { $typeName: "cel.expr.Constant", constantKind } });
}
