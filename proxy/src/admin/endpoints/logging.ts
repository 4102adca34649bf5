/**
 * `/logging`: the log levels of the modules, in the syntax of RUST_LOG; GET reads them, POST sets them in all threads.
 */
import { levelOf, type LogFilter, parseLogFilter, renderLogFilter } from "@gatewayproxy/runtime/log-filter";
import { type AdminResponse, type AdminEndpoint, reject } from "../endpoint.ts";

/** The log filter of the process. */
export interface LogLevels {
  /** The filter of the settings, for `?reset`. */
  readonly initial: LogFilter;
  /** Modules by name, with the subjects of their lines. */
  readonly modules: Readonly<Record<string, string>>;
  current(): LogFilter;
  /** Sets the filter. Resolves when every thread uses it. */
  set(filter: LogFilter): Promise<void>;
}

const hint =
  "POST /logging?level=LEVEL or ?level=LEVEL,MODULE=LEVEL, or ?reset for the initial level; GET lists modules";

/** The endpoint of the log filter. An invalid filter gets a 400 and changes nothing. */
export function loggingEndpoint(levels: LogLevels): AdminEndpoint {
  return {
    path: "/logging",
    query: ["level=FILTER", "reset"],
    summary: "The log filter in effect, and the modules that log; POST replaces the filter, in the syntax of RUST_LOG.",
    methods: {
      GET({ query }) {
        if (query.size > 0) return reject(400, "GET /logging does not accept parameters", hint);
        return show(levels, levels.current());
      },
      async POST({ query }) {
        const text = query.get("level");
        if (query.has("reset") === (text !== null)) {
          return reject(
            400,
            `POST /logging with ${text === null ? "neither level nor reset" : "level and reset"}`,
            hint,
          );
        }
        const filter = text === null ? levels.initial : readFilter(text, levels.modules);
        if ("kind" in filter) return filter;
        await levels.set(filter);
        return show(levels, filter);
      },
    },
  };
}

function readFilter(text: string, modules: LogLevels["modules"]): LogFilter | AdminResponse {
  const parsed = parseLogFilter(text, Object.keys(modules));
  return parsed.ok ? parsed.value : reject(400, parsed.problems.map(({ message }) => message).join("; "), hint);
}

/** Renders the filter on the first line, then each module with its level. */
function show({ modules }: LogLevels, filter: LogFilter): AdminResponse {
  const width = Math.max(...Object.keys(modules).map((name) => name.length));
  const rows = Object.entries(modules).map(
    ([name, subject]) => `${name.padEnd(width)}  ${levelOf(filter, name).padEnd(5)}  ${subject}\n`,
  );
  return { kind: "text", text: `current log level is ${renderLogFilter(filter)}\n\n${rows.join("")}` };
}
