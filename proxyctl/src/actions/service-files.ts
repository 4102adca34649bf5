/** Reads the configuration files of a rate limit service, as the service itself reads them. */
import { readFile, stat } from "node:fs/promises";
import { text as readAll } from "node:stream/consumers";
import { renderConfigProblem } from "@gatewayproxy/ratelimit-service/config-problem";
import { ConfigSet, type ConfigText } from "@gatewayproxy/ratelimit-service/config-set";
import { listRuntimeFiles, readRuntimeFiles } from "@gatewayproxy/ratelimit-service/runtime-directory";
import { CommandError, textOf } from "../command-error.ts";
import type { Io } from "../io.ts";
import type { ServiceFiles } from "../replay/replay-services.ts";

/** Reads all files below the paths; undefined without a path. Throws a `CommandError` for an invalid configuration. */
export async function readServiceFiles(paths: readonly string[], io: Io): Promise<ServiceFiles | undefined> {
  if (paths.length === 0) return undefined;
  const texts = (await Promise.all(paths.map((path) => readPath(path, io)))).flat();
  const { config, problems } = new ConfigSet(false).update(texts);
  if (problems.length > 0) {
    throw new CommandError({
      message: `read the limits of the rate limit service: ${problems.map(renderConfigProblem).join("\n  ")}`,
      advice: ["name files in the format of envoyproxy/ratelimit with --ratelimit-config"],
    });
  }
  return { texts, domains: new Set(config?.domains.keys()) };
}

async function readPath(path: string, io: Io): Promise<readonly ConfigText[]> {
  if (path === "-") return [{ key: "standard input", file: "standard input", text: await readAll(io.stdin) }];
  try {
    if (!(await stat(path)).isDirectory()) return [{ key: path, file: path, text: await readFile(path, "utf8") }];
    return await readRuntimeFiles(await listRuntimeFiles({ directory: path, keyRoot: path, ignoresDotFiles: true }));
  } catch (error) {
    throw new CommandError({
      message: `read the limits of the rate limit service ${path}: ${textOf(error)}`,
      advice: ["name a file or a folder with --ratelimit-config"],
      cause: error,
    });
  }
}
