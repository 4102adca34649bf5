/** Examples of command lines at the end of a command's help. */
import { type Command, Help } from "commander";

const examples = new WeakMap<Command, readonly string[]>();

/** Adds examples to the help of `command`, each as typed: `proxyctl doctor gateway/web`. */
export function withExamples(command: Command, ...lines: readonly string[]): Command {
  examples.set(command, lines);
  return command;
}

/** Returns the examples of a command. */
export function examplesOf(command: Command): readonly string[] {
  return examples.get(command) ?? [];
}

/** Formats the help with the examples, for commander's `configureHelp`. */
export function formatHelp(command: Command, helper: Help): string {
  const text = Help.prototype.formatHelp.call(helper, command, helper);
  const lines = examplesOf(command);
  return lines.length === 0 ? text : `${text}\nExamples:\n${lines.map((line) => `  ${line}\n`).join("")}`;
}
