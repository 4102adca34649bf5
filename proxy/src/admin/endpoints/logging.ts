/** `/logging`: which modules log how much, in the syntax of RUST_LOG; read by GET, set by POST in all threads at once. */
import { type LogFilter, levelPattern, parseLogFilter, renderLogFilter } from "@gatewayproxy/runtime/log-filter";
import { type AdminAnswer, type AdminEndpoint, refuse } from "../endpoint.ts";

export interface LogLevels {
  /** As the settings say, for `?reset`. */
  readonly initial: LogFilter;
  current(): LogFilter;
  /** Resolves when every thread logs by it. */
  set(filter: LogFilter): Promise<void>;
}

const hint =
  "POST /logging?level=LEVEL, ?level=LEVEL,MODULE=LEVEL or ?level=MODULE=LEVEL, or ?reset to go back to the level of the start";

export function loggingEndpoint(levels: LogLevels): AdminEndpoint {
  return {
    path: "/logging",
    query: ["level=FILTER", "reset"],
    summary: "The log filter in effect; POST changes it in every thread, in the syntax of RUST_LOG.",
    methods: {
      GET({ query }) {
        if (query.size > 0) return refuse(400, "GET /logging only tells the level", hint);
        return tell(levels.current());
      },
      async POST({ query }) {
        const base = query.has("reset") ? levels.initial : levels.current();
        const level = query.get("level") ?? "";
        if (level === "" && !query.has("reset")) return tell(base);
        const wanted = level === "" ? base : addDirectives(base, level);
        if ("kind" in wanted) return wanted;
        await levels.set(wanted);
        return tell(wanted);
      },
    },
  };
}

/** A level for everything makes a filter whole; without one, the directives are added to those in effect. */
function addDirectives(base: LogFilter, text: string): LogFilter | AdminAnswer {
  const parsed = parseLogFilter(text);
  if (!parsed.ok) return refuse(400, parsed.problems.map(({ message }) => message).join("; "), hint);
  if (text.split(",").some((directive) => levelPattern.test(directive.trim()))) return parsed.value;
  return { level: base.level, modules: new Map([...base.modules, ...parsed.value.modules]) };
}

function tell(filter: LogFilter): AdminAnswer {
  return { kind: "text", text: `current log level is ${renderLogFilter(filter)}\n` };
}
