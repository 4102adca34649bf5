/**
 * Problems and warnings of a configuration, with the messages of envoyproxy/ratelimit and the location in the file.
 */
import { type Problem, renderProblem } from "@gatewayproxy/runtime/problem";
import { isSecretValue, redacted } from "@gatewayproxy/runtime/redaction";

/**
 * A problem of a configuration. `message` is the text of envoyproxy/ratelimit for the same problem, so that alerts keep
 * matching. `resource` is the file's key (its path below the runtime folder, with dots for slashes), which precedes the
 * message there.
 */
export interface ConfigProblem extends Problem {
  /** The accepted values, where that helps. */
  readonly hint?: string;
}

/** Renders one line: `limits.yaml:4:13 config.limits.yaml: invalid rate limit unit 'foo' (accepted: second, …)`. */
export function renderConfigProblem(problem: ConfigProblem): string {
  const text = renderProblem(problem);
  return withoutCredentials(problem.hint === undefined ? text : `${text} (${problem.hint})`);
}

/** Removes credentials. A problem quotes the configuration, in which other characters than spaces may delimit them. */
function withoutCredentials(text: string): string {
  return text.replaceAll(/[^\s'"(),:]{16,}/g, (word) => (isSecretValue(word) ? redacted : word));
}

/**
 * Sorts the problems of one file from top to bottom. Of several at one location it keeps the first, which causes the
 * others.
 */
export function sortProblems(problems: readonly ConfigProblem[]): readonly ConfigProblem[] {
  const byLocation = new Map<string, ConfigProblem>();
  for (const problem of problems) {
    const { line, column } = problem.location ?? noLocation;
    const position = `${line}:${column}`;
    if (!byLocation.has(position)) byLocation.set(position, problem);
  }
  return [...byLocation.values()].sort(({ location: a = noLocation }, { location: b = noLocation }) => {
    return a.line - b.line || a.column - b.column;
  });
}

const noLocation = { line: 0, column: 0 };
