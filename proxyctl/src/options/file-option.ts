/** The flag for the manifests that a command reads. */
import { Option } from "commander";

/** Returns the required flag `-f`, which may be repeated: files, folders, or `-` for standard input. */
export function fileOption(): Option {
  return new Option("-f, --file <path>", "a file, a folder, or - for standard input (may be repeated)")
    .makeOptionMandatory()
    .argParser((value: string, before: readonly string[] | undefined) => [...(before ?? []), value]);
}
