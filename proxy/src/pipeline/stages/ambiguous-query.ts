/**
 * Rejects a request whose query repeats a parameter with different values, if the match or a limit of the rule reads
 * it. Servers disagree on which value counts, so the backend could read another one than the gateway.
 */
import { hasConflictingParameter } from "../../routing/query-parameters.ts";
import { conflictingParameter } from "../local-replies.ts";
import type { Stage } from "../stage.ts";

export const rejectAmbiguousQuery: Stage = {
  name: "ambiguous query",
  run(request) {
    const { downstream, rule, isQueryAmbiguous } = request;
    if (!isQueryAmbiguous && !hasConflictingParameter(downstream.head.path, rule.queryNames)) return "continue";
    return request.reply(conflictingParameter);
  },
};
