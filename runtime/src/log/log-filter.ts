/**
 * The log filter, in the syntax of `RUST_LOG` (env_logger, and the span directives of tracing's EnvFilter): a level for
 * everything, levels by module, levels for the lines of some requests, and a pattern for messages. The same text sets
 * the filter at start, changes it at run time, and shows it.
 */
import type { Problem, Result } from "../text/problem.ts";
import { suggest } from "../settings/suggest.ts";

/**
 * Log levels, from the fewest lines to the most; `off` logs nothing. A filter may also give a level by its index here.
 */
export const logLevels = ["off", "error", "warn", "info", "debug", "trace"] as const;
/** A log level. */
export type LogLevel = (typeof logLevels)[number];

/** A parsed log filter. */
export interface LogFilter {
  /** The level of modules that no directive covers. */
  readonly level: LogLevel;
  /** Levels by module, in the order given; each covers the modules below it too. */
  readonly modules: ReadonlyMap<string, LogLevel>;
  /** Requests whose lines are logged at other levels; absent: none. */
  readonly requests?: readonly RequestDirective[];
  /** The pattern that a message must match; absent: all messages. */
  readonly pattern?: RegExp;
}

/** `MODULE[request{FIELD=VALUE}]=LEVEL`: the level for lines of a module that have a request id and these fields. */
export interface RequestDirective {
  /** The module; empty for all modules. */
  readonly module: string;
  /** Values by field name; undefined for any value. */
  readonly fields: ReadonlyMap<string, string | undefined>;
  readonly level: LogLevel;
}

const accepted = `accepted are a level (${logLevels.join(", ")}), MODULE, MODULE=LEVEL and MODULE[request{FIELD=VALUE}]=LEVEL, separated by commas, and /PATTERN at the end`;
const modulePattern = /^[A-Za-z_][\w-]*(?:::[A-Za-z_][\w-]*)*$/;
const directivePattern =
  /^(?<module>[^[\]=]*)(?:\[(?<span>[^\]{}]*)(?:\{(?<fields>[^}]*)\})?\])?(?:=(?<level>[^=[\]]*))?$/;
const fieldPattern = /^([A-Za-z]\w*)(?:=(?:"([^"]*)"|([^"]*)))?$/;
const maxPatternLength = 256;

/**
 * Parses comma-separated directives. A module without a level means `trace`. Levels are case-insensitive. Of several
 * directives for a module, the last applies. Without a bare level, the level of other modules is `error`, as in
 * RUST_LOG.
 *
 * @param known modules of the process: a directive must name one of them or a parent. Absent: any name is accepted.
 */
export function parseLogFilter(text: string, known?: readonly string[]): Result<LogFilter> {
  let level: LogLevel = "error";
  const modules = new Map<string, LogLevel>();
  const requests: RequestDirective[] = [];
  const problems: Problem[] = [];
  const { directives, pattern: patternText } = splitFilter(text);
  for (const directive of directives) {
    const read = readDirective(directive, known);
    if (read.kind === "level") level = read.level;
    else if (read.kind === "module") modules.set(read.module, read.level);
    else if (read.kind === "request") requests.push(read.directive);
    else problems.push({ message: read.message });
  }
  const pattern = patternText === undefined ? undefined : readPattern(patternText);
  if (typeof pattern === "string") problems.push({ message: pattern });
  if (directives.length === 0 && patternText === undefined) problems.push({ message: `nothing is set; ${accepted}` });
  if (problems.length > 0) return { ok: false, problems };
  return {
    ok: true,
    value: {
      level: directives.length === 0 ? "trace" : level,
      modules,
      ...(requests.length > 0 && { requests }),
      ...(pattern instanceof RegExp && { pattern }),
    },
  };
}

/** Splits at commas and at the first slash, where the pattern begins; not inside brackets. Empty parts are left out. */
function splitFilter(text: string): { readonly directives: readonly string[]; readonly pattern: string | undefined } {
  const directives: string[] = [];
  let depth = 0;
  let start = 0;
  let at = 0;
  for (; at < text.length; at++) {
    const character = text[at] ?? "";
    if (character === "[" || character === "{") {
      depth++;
    } else if (character === "]" || character === "}") {
      depth--;
    } else if (depth <= 0 && character === "/") {
      break;
    } else if (depth <= 0 && character === ",") {
      directives.push(text.slice(start, at));
      start = at + 1;
    }
  }
  directives.push(text.slice(start, at));
  return {
    directives: directives.map((directive) => directive.trim()).filter((directive) => directive !== ""),
    pattern: at < text.length ? text.slice(at + 1) : undefined,
  };
}

type ReadDirective =
  | { readonly kind: "level"; readonly level: LogLevel }
  | { readonly kind: "module"; readonly module: string; readonly level: LogLevel }
  | { readonly kind: "request"; readonly directive: RequestDirective }
  | { readonly kind: "problem"; readonly message: string };

function readDirective(directive: string, known: readonly string[] | undefined): ReadDirective {
  const bare = asLevel(directive);
  if (bare !== undefined) return { kind: "level", level: bare };
  const problem = (message: string): ReadDirective => ({ kind: "problem", message });
  const parts = directivePattern.exec(directive)?.groups;
  if (parts === undefined) return problem(`"${directive}" is not a log directive; ${accepted}`);
  const module = (parts["module"] ?? "").trim();
  const levelText = (parts["level"] ?? "").trim();
  const level = levelText === "" ? "trace" : asLevel(levelText);
  const hasSpan = parts["span"] !== undefined;
  if (level === undefined || (module === "" ? !hasSpan : !modulePattern.test(module))) {
    return problem(`"${directive}" is not a log directive; ${accepted}`);
  }
  if (module !== "" && known !== undefined && !known.some((name) => covers(module, name))) {
    return problem(unknownModule(module, known));
  }
  if (!hasSpan) return { kind: "module", module, level };
  if (!["", "request"].includes(parts["span"] ?? "")) {
    return problem(`"${directive}" names the span "${parts["span"] ?? ""}"; the only accepted span is request`);
  }
  const fields = readFields(parts["fields"] ?? "");
  if (fields === undefined) {
    return problem(
      `the fields of "${directive}" cannot be read, accepted are FIELD and FIELD=VALUE, such as {route=default/chat}`,
    );
  }
  return { kind: "request", directive: { module, fields, level } };
}

function readFields(text: string): RequestDirective["fields"] | undefined {
  const fields = new Map<string, string | undefined>();
  for (const part of text.split(",").map((item) => item.trim())) {
    if (part === "") continue;
    const [, name, quoted, plain] = fieldPattern.exec(part) ?? [];
    if (name === undefined) return undefined;
    fields.set(name, quoted ?? plain);
  }
  return fields;
}

function readPattern(text: string): RegExp | string {
  if (text.length > maxPatternLength) {
    return `the pattern of messages has ${text.length} characters, accepted are ${maxPatternLength}`;
  }
  try {
    return new RegExp(text);
  } catch {
    return `${JSON.stringify(text)} is not a regular expression`;
  }
}

function unknownModule(module: string, known: readonly string[]): string {
  const names = [...known, ...new Set(known.map(parentOf))].filter((name) => name !== "");
  const isPath = module.includes("::");
  const candidates = isPath ? names : [...logLevels, ...names];
  const suggestion = suggest(module, candidates);
  const hint =
    suggestion === undefined
      ? `accepted are ${(isPath ? known : [...logLevels, ...known]).join(", ")}`
      : `did you mean ${suggestion}?`;
  return isPath ? `there is no module "${module}"; ${hint}` : `"${module}" is neither a level nor a module; ${hint}`;
}

function asLevel(text: string): LogLevel | undefined {
  const lower = text.toLowerCase();
  return logLevels.find((level, index) => level === lower || String(index) === text);
}

/** Renders the directives in effect, in a form that `parseLogFilter` accepts. */
export function renderLogFilter({ level, modules, requests = [], pattern }: LogFilter): string {
  const directives = [
    level,
    ...Array.from(modules, ([module, moduleLevel]) => `${module}=${moduleLevel}`),
    ...requests.map(renderRequestDirective),
  ];
  return directives.join(",") + (pattern === undefined ? "" : `/${pattern.source}`);
}

function renderRequestDirective({ module, fields, level }: RequestDirective): string {
  const fieldTexts = Array.from(fields, ([name, value]) => (value === undefined ? name : `${name}=${value}`));
  return `${module}[request${fieldTexts.length === 0 ? "" : `{${fieldTexts.join(",")}}`}]=${level}`;
}

/** Returns the level of a module: that of the longest directive that names it or a module above it. */
export function levelOf({ level, modules }: LogFilter, module: string): LogLevel {
  for (let name = module; name !== ""; name = parentOf(name)) {
    const found = modules.get(name);
    if (found !== undefined) return found;
  }
  return level;
}

/** Returns the most detailed level at which a module may log: its own, or that of a directive for some requests. */
export function mostDetailedLevelOf(filter: LogFilter, module: string): LogLevel {
  const levels = (filter.requests ?? []).flatMap((directive) =>
    covers(directive.module, module) ? [directive.level] : [],
  );
  return [levelOf(filter, module), ...levels].reduce((a, b) => (includes(a, b) ? a : b));
}

/** Whether a line passes the filter. @param fields of the line, as they are logged. */
export function passes(filter: LogFilter, module: string, level: LogLevel, message: string, fields: unknown): boolean {
  if (filter.pattern?.test(message) === false) return false;
  if (includes(levelOf(filter, module), level)) return true;
  return (filter.requests ?? []).some(
    (directive) =>
      covers(directive.module, module) && includes(directive.level, level) && matchesRequest(fields, directive.fields),
  );
}

function matchesRequest(line: unknown, fields: RequestDirective["fields"]): boolean {
  if (typeof line !== "object" || line === null || !("requestId" in line)) return false;
  const values: ReadonlyMap<string, unknown> = new Map(Object.entries(line));
  return Array.from(fields).every(([name, value]) =>
    value === undefined ? values.has(name) : String(values.get(name)) === value,
  );
}

/** Whether `level` shows lines of level `other`. */
function includes(level: LogLevel, other: LogLevel): boolean {
  return logLevels.indexOf(other) <= logLevels.indexOf(level);
}

/** Whether a directive for `above` covers `module`. */
function covers(above: string, module: string): boolean {
  return above === "" || module === above || module.startsWith(`${above}::`);
}

function parentOf(module: string): string {
  return module.slice(0, Math.max(0, module.lastIndexOf("::")));
}
