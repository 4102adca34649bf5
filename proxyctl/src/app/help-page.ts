/** Renders the help of every command as Markdown for docs/proxyctl.md. A test compares the page with it. */
import type { Command } from "commander";

/** Returns a section per command with its help as a code block, in the order of the help. */
export function renderHelpPage(program: Command): string {
  return leavesOf(program, [])
    .map(({ path, command }) => `### ${path.join(" ")}\n\n\`\`\`\n${command.helpInformation().trimEnd()}\n\`\`\`\n`)
    .join("\n");
}

interface Leaf {
  readonly path: readonly string[];
  readonly command: Command;
}

/** Returns the commands without subcommands, except hidden ones and `help`. */
export function leavesOf(command: Command, path: readonly string[]): readonly Leaf[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .flatMap((subcommand): readonly Leaf[] => {
      if (subcommand.name() === "help") return [];
      const subcommandPath = [...path, subcommand.name()];
      return subcommand.commands.length === 0
        ? [{ path: subcommandPath, command: subcommand }]
        : leavesOf(subcommand, subcommandPath);
    });
}
