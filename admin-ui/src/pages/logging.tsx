/** The log level of each module, and a form to change the filter in all threads at once. */
import { useEffect, useState } from "preact/hooks";
import { type AdminFailure, getText, toFailure } from "../admin.ts";
import { textOf } from "../form.ts";
import { type Column, DataTable } from "../parts/data-table.tsx";
import { Alert } from "../parts/failure.tsx";

const levels = ["error", "warn", "info", "debug", "trace", "off"] as const;
const timeoutMs = 10_000;

interface Logging {
  readonly filter: string;
  readonly modules: readonly LogModule[];
}

interface LogModule {
  readonly name: string;
  readonly level: string;
  readonly about: string;
}

/** The page of log levels. */
export function LoggingPage() {
  const [logging, setLogging] = useState<Logging>();
  const [failure, setFailure] = useState<AdminFailure>();
  const ask = (method: "GET" | "POST", query: string): void => {
    getText(`/logging${query}`, method, AbortSignal.timeout(timeoutMs)).then(
      (text) => {
        setLogging(readLogging(text));
        setFailure(undefined);
      },
      (error: unknown) => setFailure(toFailure(error)),
    );
  };
  useEffect(() => ask("GET", ""), []);
  return (
    <>
      {failure !== undefined && <Alert message={failure.message} />}
      <p role="status">
        Log filter in effect: <code>{logging?.filter ?? "…"}</code>
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          ask("POST", `?level=${encodeURIComponent(textOf(event.currentTarget, "level"))}`);
        }}
      >
        <label for="level">Level, or a level and modules such as info,proxy::ratelimit=debug</label>
        <div class="controls">
          <input id="level" name="level" list="levels" required spellcheck={false} autocomplete="off" />
          <datalist id="levels">
            {levels.map((level) => (
              <option key={level} value={level} />
            ))}
          </datalist>
          <button type="submit">Set</button>
          <button type="button" onClick={() => ask("POST", "?reset")}>
            Reset to the level of the start
          </button>
        </div>
        <p class="note">It replaces the filter in every thread at once and lasts until the proxy ends.</p>
      </form>
      {logging !== undefined && (
        <DataTable caption="Modules" columns={columns} rows={logging.modules} keyOf={({ name }) => name} />
      )}
    </>
  );
}

const columns: readonly Column<LogModule>[] = [
  { head: "Module", cell: ({ name }) => <code>{name}</code> },
  { head: "Level", cell: ({ level }) => level },
  { head: "What it logs", cell: ({ about }) => about },
];

/**
 * Parses the response: the filter in the first line; after an empty line each module, its level and its description.
 */
function readLogging(text: string): Logging {
  const [first = "", ...rest] = text.split("\n");
  const modules = rest.flatMap((line) => {
    const [, name, level, about] = /^(\S+) +(\S+) +(.*)$/.exec(line) ?? [];
    return name === undefined || level === undefined ? [] : [{ name, level, about: about ?? "" }];
  });
  return { filter: first.replace(/^current log level is /, ""), modules };
}
