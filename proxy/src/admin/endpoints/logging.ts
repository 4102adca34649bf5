/** `/logging`: which modules log how much, in the syntax of RUST_LOG; read by GET, set by POST in all threads at once. */
import { levelOf, type LogFilter, parseLogFilter, renderLogFilter } from "@gatewayproxy/runtime/log-filter";
import { type AdminAnswer, type AdminEndpoint, refuse } from "../endpoint.ts";

export interface LogLevels {
  /** As the settings say, for `?reset`. */
  readonly initial: LogFilter;
  /** Modules by name, with what their lines are about. */
  readonly modules: Readonly<Record<string, string>>;
  current(): LogFilter;
  /** Resolves when every thread logs by it. */
  set(filter: LogFilter): Promise<void>;
}

const hint =
  "POST /logging?level=LEVEL or ?level=LEVEL,MODULE=LEVEL, or ?reset for the level of the start; GET lists modules";

export function loggingEndpoint(levels: LogLevels): AdminEndpoint {
  return {
    path: "/logging",
    query: ["level=FILTER", "reset"],
    summary: "The log filter in effect, and the modules that log; POST replaces the filter, in the syntax of RUST_LOG.",
    methods: {
      GET({ query }) {
        if (query.size > 0) return refuse(400, "GET /logging does not take parameters", hint);
        return show(levels, levels.current());
      },
      async POST({ query }) {
        const text = query.get("level");
        if (query.has("reset") === (text !== null)) {
          return refuse(
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

function readFilter(text: string, modules: LogLevels["modules"]): LogFilter | AdminAnswer {
  const parsed = parseLogFilter(text, Object.keys(modules));
  return parsed.ok ? parsed.value : refuse(400, parsed.problems.map(({ message }) => message).join("; "), hint);
}

/** The filter on the first line, and then each module with its level. */
function show({ modules }: LogLevels, filter: LogFilter): AdminAnswer {
  const width = Math.max(...Object.keys(modules).map((name) => name.length));
  const rows = Object.entries(modules).map(
    ([name, about]) => `${name.padEnd(width)}  ${levelOf(filter, name).padEnd(5)}  ${about}\n`,
  );
  return { kind: "text", text: `current log level is ${renderLogFilter(filter)}\n\n${rows.join("")}` };
}
