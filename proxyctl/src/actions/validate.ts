/** What `proxyctl validate` does. */
import { checkManifests } from "@gatewayproxy/proxy/app/check-manifests";
import { type Problem, renderProblem } from "@gatewayproxy/runtime/problem";
import { CommandError, exitCodes } from "../command-error.ts";
import type { PlainFormat } from "../commands/output-option.ts";
import type { Io } from "../io.ts";
import { withoutControls } from "../output/controls.ts";
import { renderData } from "../output/format.ts";
import { type GivenManifests, readManifests } from "./manifest-files.ts";

export interface ValidateOptions {
  readonly file: readonly string[];
  readonly references: boolean;
  readonly strict?: true;
  readonly output: PlainFormat;
}

export async function validate({ file, references, strict, output }: ValidateOptions, io: Io): Promise<void> {
  const given = await readManifests(file, io);
  const { resources, unseen, conflicts, conflictsLeftOut, ...checked } = checkManifests(given.files, { references });
  requireManifests(given, checked.problems);
  // A folder is all that a proxy reads. A file alone may name what another file, or the cluster, holds.
  const isWhole = strict === true || given.hasFolder;
  const problems = [
    ...checked.problems,
    ...(isWhole ? unseen : []),
    // Two routes may be meant to compete, such as old and new ones during a move.
    ...(strict === true ? conflicts : []),
  ];
  const warnings = [...(isWhole ? [] : unseen), ...(strict === true ? [] : conflicts)];
  if (problems.length > 0) io.setExitCode(exitCodes.no);
  else if (resources === 0) throw nothingIn(file);
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
      "  what is missing may be in another file or in the cluster: give the folder to look at all, or --strict to refuse\n",
    );
  }
  if (conflicts.length > 0) {
    const others = conflictsLeftOut === 0 ? "" : `; ${count(conflictsLeftOut, "more rule")} not listed`;
    const advice = strict === true ? "" : "; --strict refuses that";
    io.stderr.write(`  conflicts: some rules get requests that others match, too${others}${advice}\n`);
  }
}

/** A file that holds no manifest at all, and is not named like one, is the wrong file: its faults help nobody. */
function requireManifests({ files, named }: GivenManifests, problems: readonly Problem[]): void {
  for (const { path } of files) {
    if (!named.has(path) || /\.(ya?ml|json)$/.test(path)) continue;
    const ours = problems.filter(({ location }) => location?.file === path);
    const [first] = ours;
    if (first === undefined || ours.some(({ resource }) => resource !== undefined)) continue;
    throw new CommandError({
      message: `validate ${path}: it is not a manifest: ${renderProblem(first)}`,
      advice: ["name a file or a folder of manifests (*.yaml, *.yml, *.json)"],
    });
  }
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
