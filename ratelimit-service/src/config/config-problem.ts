/** What is wrong, or only odd, in a configuration, with the words of the reference service and the place in the file. */
import { type Problem, renderProblem } from "@gatewayproxy/runtime/problem";
import { isSecretValue, redacted } from "@gatewayproxy/runtime/redaction";

/**
 * `message` is the text that envoyproxy/ratelimit uses for the same fault, so that alerts keep matching; `resource` is
 * the file's key (its path below the runtime folder with dots for slashes), which stands before the text there.
 */
export interface ConfigProblem extends Problem {
  /** What would be accepted, where that helps. */
  readonly hint?: string;
}

/** One line for people: `limits.yaml:4:13 config.limits.yaml: invalid rate limit unit 'foo' (accepted: second, …)`. */
export function renderConfigProblem(problem: ConfigProblem): string {
  const text = renderProblem(problem);
  return withoutCredentials(problem.hint === undefined ? text : `${text} (${problem.hint})`);
}

/** A problem quotes the configuration, between other characters than blanks. */
function withoutCredentials(text: string): string {
  return text.replaceAll(/[^\s'"(),:]{16,}/g, (word) => (isSecretValue(word) ? redacted : word));
}

/** Problems of one file from its top to its bottom; of several at one place the first, of which the others follow. */
export function inOrder(problems: readonly ConfigProblem[]): readonly ConfigProblem[] {
  const byPlace = new Map<string, ConfigProblem>();
  for (const problem of problems) {
    const { line, column } = problem.location ?? nowhere;
    const place = `${line}:${column}`;
    if (!byPlace.has(place)) byPlace.set(place, problem);
  }
  return [...byPlace.values()].sort(({ location: a = nowhere }, { location: b = nowhere }) => {
    return a.line - b.line || a.column - b.column;
  });
}

const nowhere = { line: 0, column: 0 };
