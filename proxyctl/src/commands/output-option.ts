/** The flag that says how an answer is printed. */
import { Option } from "commander";

/** What `--output` takes where there is no table with more columns. */
export type PlainFormat = "table" | "json" | "yaml";

export function plainOutput(): Option {
  return new Option("-o, --output <format>", "how to print it").choices(["table", "json", "yaml"]).default("table");
}
