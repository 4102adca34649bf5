/**
 * `proxyctl completion`: scripts for the completion of command lines in a shell. The scripts are short: the hidden
 * command `__complete` finds the candidates in the command tree.
 */
import { Argument, type Command } from "commander";
import type { Io } from "../io.ts";
import { withExamples } from "./examples.ts";

const scripts = {
  bash: `# proxyctl completion for bash: source <(proxyctl completion bash)
_proxyctl() {
  local IFS=$'\\n'
  COMPREPLY=($(proxyctl __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [[ \${COMPREPLY[0]-} == */ ]] && compopt -o nospace
}
complete -o default -F _proxyctl proxyctl
`,
  zsh: `#compdef proxyctl
# proxyctl completion for zsh: source <(proxyctl completion zsh)
_proxyctl() {
  local -a found
  found=("\${(@f)$(proxyctl __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  compadd -S '' -- \${(M)found:#*/}
  compadd -- \${found:#*/}
  (( \${#found} )) || _files
}
compdef _proxyctl proxyctl
`,
  fish: `# proxyctl completion for fish: proxyctl completion fish | source
complete -c proxyctl -f -a '(proxyctl __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
} as const;

type Shell = keyof typeof scripts;

/** Adds `completion` and the command that its scripts call. Must be last, since it completes the commands before it. */
export function addCompletionCommand(program: Command, io: Io): void {
  withExamples(
    program.command("completion").description("Print a script that completes command lines of proxyctl"),
    "source <(proxyctl completion bash)",
    "proxyctl completion fish | source",
  )
    .addArgument(new Argument("<shell>", "which shell").choices(Object.keys(scripts)))
    .action((shell: Shell) => io.stdout.write(scripts[shell]));
  program
    .command("__complete", { hidden: true })
    .argument("[words...]")
    .allowUnknownOption()
    .action((words: readonly string[]) => {
      io.stdout.write(
        complete(program, words)
          .map((word) => `${word}\n`)
          .join(""),
      );
    });
}

/** Returns the candidates for the last word, given the words before it, in the order of the help. */
export function complete(program: Command, words: readonly string[]): readonly string[] {
  const last = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  const { command, rest } = descend(program, before);
  const option = command.options.find(({ short, long }) => before.length > 0 && [short, long].includes(before.at(-1)));
  const needsValue = option !== undefined && (option.required || option.optional);
  const candidates = needsValue
    ? (option.argChoices ?? [])
    : last.startsWith("-")
      ? command.options.flatMap(({ long }) => long ?? [])
      : wordsFor(command, rest);
  return candidates.filter((word) => word.startsWith(last) && word !== "__complete");
}

/** Returns the command that the words lead to, and its arguments so far. */
function descend(program: Command, words: readonly string[]) {
  let command = program;
  const rest: string[] = [];
  for (const word of words) {
    const next = rest.length === 0 ? command.commands.find((subcommand) => subcommand.name() === word) : undefined;
    if (next !== undefined) command = next;
    else if (!word.startsWith("-")) rest.push(word);
  }
  return { command, rest };
}

function wordsFor(command: Command, rest: readonly string[]): readonly string[] {
  if (command.commands.length > 0) return command.commands.map((subcommand) => subcommand.name());
  const choices = command.registeredArguments[rest.length]?.argChoices;
  if (choices !== undefined) return choices;
  return command.registeredArguments.some((argument) => argument.name() === "resource") ? ["gateway/", "pod/"] : [];
}
