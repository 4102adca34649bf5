/** Runs `proxyctl validate`. */
import { checkManifests } from "@gatewayproxy/proxy/check-manifests";
import { type Problem, renderProblem } from "@gatewayproxy/runtime/problem";
import { CommandError, exitCodes } from "../command-error.ts";
import type { PlainFormat } from "../options/output-option.ts";
import type { Io } from "../io.ts";
import { withoutControls } from "../output/controls.ts";
import { renderData } from "../output/format.ts";
import { type ManifestSet, readManifests } from "./manifest-files.ts";

/** Options of `proxyctl validate`. */
export interface ValidateOptions {
  /** `-f`: manifest files and folders, `-` for standard input; at least one. */
  readonly file: readonly string[];
  /** False with `--no-references`: each resource is checked by itself. */
  readonly references: boolean;
  /** `--strict`: references to missing objects are problems for single files, too. */
  readonly strict?: true;
  /** `-o`: the format of the problems. */
  readonly output: PlainFormat;
}

/** Validates manifests and prints their problems. Sets the exit code for "no" if there are any. */
export async function validate({ file, references, strict, output }: ValidateOptions, io: Io): Promise<void> {
  const manifests = await readManifests(file, io);
  const { resources, unseen, conflicts, conflictsLeftOut, ...checked } = checkManifests(manifests.files, {
    references,
  });
  requireManifests(manifests, checked.problems);
  // A folder has everything that a proxy reads. A single file may refer to objects in other files or in the cluster.
  const isWhole = strict === true || manifests.hasFolder;
  const problems = [
    ...checked.problems,
    ...(isWhole ? unseen : []),
    // Two routes may compete on purpose, such as an old and a new one during a migration.
    ...(strict === true ? conflicts : []),
  ];
  const warnings = [...(isWhole ? [] : unseen), ...(strict === true ? [] : conflicts)];
  if (problems.length > 0) io.setExitCode(exitCodes.no);
  else if (resources === 0) throw noResourcesError(file);
  if (output !== "table") {
    io.stdout.write(renderData(output, { resources, problems, warnings }));
    return;
  }
  for (const problem of problems) io.stdout.write(`${withoutControls(renderProblem(problem))}\n`);
  for (const warning of warnings) io.stdout.write(`warning: ${withoutControls(renderProblem(warning))}\n`);
  const counts = [`${count(resources, "resource")} read`, count(problems.length, "problem")];
  if (warnings.length > 0) counts.push(count(warnings.length, "warning"));
  io.stderr.write(`${counts.join(", ")}\n`);
  if (!isWhole && unseen.length > 0) {
    io.stderr.write(
      "  missing objects may be in another file or in the cluster: give the whole folder, or --strict to reject them\n",
    );
  }
  if (conflicts.length > 0) {
    const others = conflictsLeftOut === 0 ? "" : `; ${count(conflictsLeftOut, "more rule")} not listed`;
    const advice = strict === true ? "" : "; --strict rejects that";
    io.stderr.write(`  conflicts: some rules get requests that others match, too${others}${advice}\n`);
  }
}

/** A file without any manifest, and not named like one, is the wrong file: the problems in it would not help. */
function requireManifests({ files, named }: ManifestSet, problems: readonly Problem[]): void {
  for (const { path } of files) {
    if (!named.has(path) || /\.(ya?ml|json)$/.test(path)) continue;
    const problemsInFile = problems.filter(({ location }) => location?.file === path);
    const [first] = problemsInFile;
    if (first === undefined || problemsInFile.some(({ resource }) => resource !== undefined)) continue;
    throw new CommandError({
      message: `validate ${path}: it is not a manifest: ${renderProblem(first)}`,
      advice: ["name a file or a folder of manifests (*.yaml, *.yml, *.json)"],
    });
  }
}

/** A check of no resources must not succeed: the folder is the wrong one, or the program that made the text failed. */
function noResourcesError(paths: readonly string[]): CommandError {
  return new CommandError({
    message: `validate ${paths.join(", ")}: it has no resource of a kind that the proxy reads`,
    advice: ["name the folder of the manifests (*.yaml, *.yml, *.json), or a file"],
  });
}

function count(number: number, noun: string): string {
  return `${number === 0 ? "no" : number} ${noun}${number === 1 ? "" : "s"}`;
}
