/** How much is logged, and a form to change it in all threads at once. */
import { useEffect, useState } from "preact/hooks";
import { getText } from "../admin.ts";
import { textOf } from "../form.ts";
import { Failure } from "../parts/failure.tsx";

const levels = ["error", "warn", "info", "debug", "trace", "off"] as const;

export function LoggingPage() {
  const [current, setCurrent] = useState<string>();
  const [modules, setModules] = useState<string>();
  const [failure, setFailure] = useState<string>();
  const ask = (method: "GET" | "POST", query: string): void => {
    getText(`/logging${query}`, method, AbortSignal.timeout(10_000)).then(
      (text) => {
        const [first = "", ...rest] = text.split("\n");
        setCurrent(first.replace(/^current log level is /, ""));
        setModules(rest.join("\n").trim());
        setFailure(undefined);
      },
      (error: unknown) => setFailure(error instanceof Error ? error.message : String(error)),
    );
  };
  useEffect(() => ask("GET", ""), []);
  return (
    <>
      {failure !== undefined && <Failure message={failure} />}
      <p role="status">
        In effect: <code>{current ?? "…"}</code>
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          ask("POST", `?level=${encodeURIComponent(textOf(event.currentTarget, "level"))}`);
        }}
      >
        <label for="level">Level, or directives such as info,proxy::ratelimit=debug</label>
        <input id="level" name="level" list="levels" required spellcheck={false} autocomplete="off" />
        <datalist id="levels">
          {levels.map((level) => (
            <option key={level} value={level} />
          ))}
        </datalist>
        <button type="submit">Set</button>
        <button type="button" onClick={() => ask("POST", "?reset")}>
          Back to the settings
        </button>
      </form>
      {modules !== undefined && <pre aria-label="Modules">{modules}</pre>}
    </>
  );
}
