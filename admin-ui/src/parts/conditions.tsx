/** Conditions of a status as text: green for the expected status, red for any other. */
import { isMet } from "@gatewayproxy/admin-api/conditions";
import type { Condition } from "@gatewayproxy/admin-api/shape";

/** A list of conditions. */
export function Conditions({ conditions }: { conditions: readonly Condition[] }) {
  return (
    <ul class="conditions">
      {conditions.map((condition) => {
        const { type, status, reason, message } = condition;
        return (
          <li key={type} class={isMet(condition) ? "good" : "bad"}>
            <strong>{status === "True" ? type : `Not ${type}`}</strong>
            {reason !== type && ` (${reason})`}
            {!isMet(condition) && <>: {message}</>}
          </li>
        );
      })}
    </ul>
  );
}
