/** Conditions of a status, as words: green when true, red when not. */
import type { Condition } from "@gatewayproxy/admin-api/shape";

export function Conditions({ conditions }: { conditions: readonly Condition[] }) {
  return (
    <ul class="conditions">
      {conditions.map(({ type, status, reason, message }) => (
        <li key={type} class={status === "True" ? "good" : "bad"}>
          <strong>{status === "True" ? type : `Not ${type}`}</strong>
          {reason !== type && ` (${reason})`}
          {status !== "True" && <>: {message}</>}
        </li>
      ))}
    </ul>
  );
}
