/** Examples of command lines, which the help of a command ends with. */
import { type Command, Help } from "commander";

const examples = new WeakMap<Command, readonly string[]>();

/** Adds command lines to the help of `command`, each as it is typed: `proxyctl doctor gateway/web`. */
export function withExamples(command: Command, ...lines: readonly string[]): Command {
  examples.set(command, lines);
  return command;
}

export function examplesOf(command: Command): readonly string[] {
  return examples.get(command) ?? [];
}

/** For `configureHelp`: commander's own text with the examples below it. */
export function formatHelp(command: Command, helper: Help): string {
  const text = Help.prototype.formatHelp.call(helper, command, helper);
  const lines = examplesOf(command);
  return lines.length === 0 ? text : `${text}\nExamples:\n${lines.map((line) => `  ${line}\n`).join("")}`;
}
