/**
 * The functions of expressions: the CEL standard library and its string extensions. Regular expressions run in
 * `regex/`, in time linear in the text. Each function charges its cost to the budget of the evaluation.
 */
import { type CelEnv, celEnv } from "@bufbuild/cel";
import { strings } from "@bufbuild/cel/ext";
import { metered } from "./cost.ts";
import { functions } from "./functions.ts";

/** Contains no variables: each evaluation binds them by name. */
export const environment: CelEnv = metered(celEnv({ funcs: [...strings, ...functions] }));
