/** `proxyctl validate`: reports the problems of manifests before they are applied. */
import { type Command, Option } from "commander";
import type { ValidateOptions } from "../actions/validate.ts";
import type { Io } from "../io.ts";
import { actions } from "./actions.ts";
import { withExamples } from "./examples.ts";
import { fileOption } from "../options/file-option.ts";
import { plainOutput } from "../options/output-option.ts";

/** Adds `validate`. */
export function addValidateCommand(program: Command, io: Io): void {
  withExamples(
    program
      .command("validate")
      .description("Check manifests as the proxy reads them, each problem with file, line and column"),
    "proxyctl validate -f manifests/",
    "proxyctl validate -f limits.yaml --strict",
    "kustomize build . | proxyctl validate -f -",
  )
    .addOption(fileOption())
    .addOption(
      new Option("--strict", "report references to missing objects also for single files").conflicts("references"),
    )
    .option("--no-references", "check each resource by itself, not what it refers to")
    .addOption(plainOutput())
    .action(async (options: ValidateOptions) => {
      await (await actions.validate()).validate(options, io);
    });
}
