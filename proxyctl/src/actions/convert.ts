/** Runs `proxyctl convert`. */
import { CommandError, exitCodes, textOf } from "../command-error.ts";
import { type Conversion, convertedKinds, convertObjects } from "../convert/convert.ts";
import type { Io } from "../io.ts";
import { withoutControls } from "../output/controls.ts";
import { renderDocuments } from "../output/format.ts";
import { parseYamlDocuments } from "../output/parse-yaml.ts";
import { readManifests } from "./manifest-files.ts";

/** Options of `proxyctl convert`. */
export interface ConvertOptions {
  /** `-f`: manifest files and folders, `-` for standard input; at least one. */
  readonly file: readonly string[];
}

/** Prints ProxyPolicies, and notes to standard error. Sets the exit code for "no" if a limit was left out. */
export async function convert({ file }: ConvertOptions, io: Io): Promise<void> {
  const { files } = await readManifests(file, io);
  const { policies, notes, objects } = convertFiles(files);
  if (objects === 0) {
    throw new CommandError({
      message: `convert ${file.join(", ")}: it has no ${convertedKinds.join(" and no ")}`,
      advice: ["name the manifests of the other gateway, such as the output of kubectl get ingress -A -o yaml"],
    });
  }
  io.stdout.write(renderDocuments(policies));
  for (const { kind, object, field, message } of notes) {
    io.stderr.write(`${kind}: ${withoutControls(`${object} ${field}: ${message}`)}\n`);
  }
  const leftOut = notes.filter(({ kind }) => kind === "left out").length;
  const written = `${policies.length} ${policies.length === 1 ? "ProxyPolicy" : "ProxyPolicies"} written`;
  io.stderr.write(`${objects} read, ${written}, ${leftOut} left out\n`);
  if (leftOut > 0) io.setExitCode(exitCodes.no);
}

function convertFiles(files: Awaited<ReturnType<typeof readManifests>>["files"]): Conversion {
  const parts = files.map(({ path, text }) => {
    try {
      return convertObjects(parseYamlDocuments(text));
    } catch (error) {
      throw new CommandError({
        message: `convert ${path}: ${textOf(error)}`,
        advice: ["write the manifest as the API server has it: kubectl get -o yaml"],
        cause: error,
      });
    }
  });
  return {
    objects: parts.reduce((sum, { objects }) => sum + objects, 0),
    policies: parts.flatMap(({ policies }) => policies),
    notes: parts.flatMap(({ notes }) => notes),
  };
}
