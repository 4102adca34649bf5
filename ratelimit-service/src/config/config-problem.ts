/** What is wrong, or only odd, in a configuration, with the words of the reference service and the place in the file. */
import { type Problem, renderProblem } from "@gatewayproxy/runtime/problem";

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
  return problem.hint === undefined ? text : `${text} (${problem.hint})`;
}
