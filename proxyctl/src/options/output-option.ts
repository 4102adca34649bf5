/** The flag for the output format. */
import { Option } from "commander";

/** Values of `--output` without a wide table. */
export type PlainFormat = "table" | "json" | "yaml";

/** Returns the flag `-o` with the formats `table`, `json` and `yaml`. */
export function plainOutput(): Option {
  return new Option("-o, --output <format>", "how to print it").choices(["table", "json", "yaml"]).default("table");
}
