/** The directory in which the proxy keeps the counters of long windows (`--state-dir`). */
import type { StateDirectory } from "@gatewayproxy/admin-api/limits";
import { saveCondition } from "@gatewayproxy/admin-api/save-condition";
import { counted, formatBytes } from "../format.ts";
import { Ago } from "./ago.tsx";

/** @param at When the response with the state was made. */
interface SavedCountersProps<State> {
  readonly state: State;
  readonly at: string;
}

/** The directory, its file and the last failure. */
export function SavedCounters({ state, at }: SavedCountersProps<StateDirectory | undefined>) {
  return (
    <section aria-label="Saved counters">
      <h3>Saved counters</h3>
      {state === undefined ? (
        <p>
          None: counters start from zero with the proxy. The setting <code>--state-dir</code> keeps them.
        </p>
      ) : (
        <File state={state} at={at} />
      )}
    </section>
  );
}

function File({ state, at }: SavedCountersProps<StateDirectory>) {
  const { directory, savedUntil, bytes, lastError } = state;
  return (
    <>
      <UnsavedCounters state={state} at={at} />
      <p>
        The file in <code>{directory}</code> has {formatBytes(bytes)}
        {savedUntil !== undefined && (
          <>
            , with everything until <Ago time={savedUntil} at={at} /> ago
          </>
        )}
        .
      </p>
      {lastError !== undefined && (
        <p class="note">
          last error <Ago time={lastError.at} at={at} /> ago: {lastError.message}
        </p>
      )}
    </>
  );
}

/** Warns while counters are not saved in time. */
export function UnsavedCounters({ state, at }: SavedCountersProps<StateDirectory>) {
  const condition = saveCondition(state, at);
  if (condition === "current") return null;
  const { directory, failures, lastError } = state;
  if (condition === "late") {
    return (
      <p class="notice warn">
        Counters are saved late in <code>{directory}</code>: the disk or the proxy is too slow.
      </p>
    );
  }
  return (
    <p class="notice bad">
      Counters cannot be saved in <code>{directory}</code>: {lastError?.message ?? "unknown error"}.{" "}
      {counted(failures, "attempt")} failed, and more follow. A restart loses what is not saved.
    </p>
  );
}
