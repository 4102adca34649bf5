/**
 * The functions of an expression: the CEL standard library and its string extensions, with regular expressions run by
 * `regex/`, whose time is linear in the text. Each charges what it costs to the budget of the evaluation.
 */
import { type CelEnv, celEnv } from "@bufbuild/cel";
import { strings } from "@bufbuild/cel/ext";
import { metered } from "./cost.ts";
import { functions } from "./functions.ts";

/** Holds no variable: those are bound by name for each evaluation. */
export const environment: CelEnv = metered(celEnv({ funcs: [...strings, ...functions] }));
