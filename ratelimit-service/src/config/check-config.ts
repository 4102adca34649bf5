/** `--check-config DIR`: reads a folder as the service does at its start, and reports all problems. */
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import { renderConfigProblem } from "./config-problem.ts";
import { ConfigSet } from "./config-set.ts";
import type { StoreAbilities } from "./descriptor-tree.ts";
import { rulesOf } from "./rule.ts";
import { listRuntimeFiles, readRuntimeFiles } from "./runtime-directory.ts";

/** The result of a check, as the command prints it. */
export interface ConfigCheck {
  /** Lines for the standard output: one per warning and problem, then the result. */
  readonly lines: readonly string[];
  /** 0 when every file loads, 1 otherwise. */
  readonly exitCode: 0 | 1;
}

/** Checks every file below `directory`; files and folders whose names begin with a dot are left out. Never rejects. */
export async function checkConfig(
  directory: string,
  mergesDomains: boolean,
  abilities: StoreAbilities = {},
): Promise<ConfigCheck> {
  try {
    const layout = { directory, keyRoot: directory, ignoresDotFiles: true };
    const texts = await readRuntimeFiles(await listRuntimeFiles(layout));
    const { config, problems, warnings } = new ConfigSet(mergesDomains, abilities).update(texts);
    const lines = [
      ...warnings.map((warning) => `warning: ${renderConfigProblem(warning)}`),
      ...problems.map((problem) => `error: ${renderConfigProblem(problem)}`),
    ];
    if (problems.length > 0) {
      return { lines: [...lines, `error loading rate limit configs: ${problems.length} problems`], exitCode: 1 };
    }
    const rules = config === undefined ? 0 : [...rulesOf(config)].length;
    const found = `${texts.length} files, ${config?.domains.size ?? 0} domains, ${rules} limits`;
    return { lines: [...lines, `all rate limit configs ok (${found})`], exitCode: 0 };
  } catch (error) {
    const reason = errorMessage(error);
    return { lines: [`error opening directory ${directory}: ${reason}`], exitCode: 1 };
  }
}
