/** `proxyctl validate`: what a proxy would say of manifests, before they are applied. */
import { checkManifests } from "@gatewayproxy/proxy/app/check-manifests";
import { renderProblem } from "@gatewayproxy/runtime/problem";
import { type Command, Option } from "commander";
import { CommandError, exitCodes } from "../command-error.ts";
import type { Io } from "../io.ts";
import { renderData } from "../output/format.ts";
import { readManifests } from "./manifest-files.ts";

interface ValidateOptions {
  readonly file: readonly string[];
  readonly references: boolean;
  readonly output: "table" | "json" | "yaml";
}

/** Adds `validate`. */
export function addValidateCommand(program: Command, io: Io): void {
  program
    .command("validate")
    .description("Check manifests as the proxy reads them, each problem with file, line and column")
    .requiredOption(
      "-f, --file <path>",
      "a file, a folder, or - for standard input (again for more)",
      (value: string, before: readonly string[] | undefined) => [...(before ?? []), value],
    )
    .option("--no-references", "check each resource by itself, not what it refers to")
    .addOption(
      new Option("-o, --output <format>", "how to print it").choices(["table", "json", "yaml"]).default("table"),
    )
    .action(async ({ file, references, output }: ValidateOptions) => {
      const { resources, problems } = checkManifests(await readManifests(file, io), { references });
      if (problems.length > 0) io.setExitCode(exitCodes.no);
      else if (resources === 0) throw nothingIn(file);
      if (output !== "table") {
        io.stdout.write(renderData(output, { resources, problems }));
        return;
      }
      for (const problem of problems) io.stdout.write(`${renderProblem(problem)}\n`);
      io.stderr.write(`${count(resources, "resource")} read, ${count(problems.length, "problem")}\n`);
    });
}

/** A check that looked at nothing must not pass: the folder is another one, or what made the text has failed. */
function nothingIn(paths: readonly string[]): CommandError {
  return new CommandError({
    message: `validate ${paths.join(", ")}: there is no resource of a kind that the proxy reads`,
    advice: ["name the folder of the manifests (*.yaml, *.yml, *.json), or a file"],
  });
}

function count(number: number, what: string): string {
  return `${number === 0 ? "no" : number} ${what}${number === 1 ? "" : "s"}`;
}
