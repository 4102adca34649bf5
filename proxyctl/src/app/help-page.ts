/** The help of every command as Markdown, for docs/proxyctl.md: a test holds the page to it. */
import type { Command } from "commander";

/** A section per command that does something, in the order of the help; each with its help as a code block. */
export function renderHelpPage(program: Command): string {
  return leavesOf(program, [])
    .map(({ path, command }) => `### ${path.join(" ")}\n\n\`\`\`\n${command.helpInformation().trimEnd()}\n\`\`\`\n`)
    .join("\n");
}

interface Leaf {
  readonly path: readonly string[];
  readonly command: Command;
}

/** Commands without others below them; hidden ones and `help` are none of the reader's business. */
export function leavesOf(command: Command, path: readonly string[]): readonly Leaf[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .flatMap((each): readonly Leaf[] => {
      if (each.name() === "help") return [];
      const below = [...path, each.name()];
      return each.commands.length === 0 ? [{ path: below, command: each }] : leavesOf(each, below);
    });
}
