/**
 * The functions of an expression: the CEL standard library and its string extensions, with regular expressions run by
 * RE2, whose time is linear in the text, so that no request can make a pattern of ours explode.
 */
import { type CelEnv, celEnv, celMethod, CelScalar } from "@bufbuild/cel";
import { strings } from "@bufbuild/cel/ext";
import { patternFault, patternFor } from "../regex/pattern.ts";
import { WorkBudget } from "../regex/work-budget.ts";

/** What one `matches()` may cost: about a millisecond. */
const maxUnits = 50_000;

function matches(this: string, source: string): boolean {
  const fault = patternFault(source);
  if (fault !== undefined) throw new Error(fault);
  return patternFor(source, "part").test(this, new WorkBudget(maxUnits));
}

/** Holds no variable: those are bound by name for each evaluation. */
export const environment: CelEnv = celEnv({
  funcs: [...strings, celMethod("matches", CelScalar.STRING, [CelScalar.STRING], CelScalar.BOOL, matches)],
});
