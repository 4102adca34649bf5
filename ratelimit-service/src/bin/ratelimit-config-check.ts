#!/usr/local/bin/node
/** `/bin/ratelimit_config_check` of the image: checks a folder of limit files. Its flags are envoyproxy/ratelimit's. */
import { checkConfig } from "../config/check-config.ts";
import { readFlags } from "./go-flags.ts";

const read = readFlags(process.argv.slice(2), { config_dir: "text", merge_domain_configs: "switch" });
if (read.kind === "usage") {
  process.stderr.write(`${read.text}\n`);
  process.exitCode = 2;
} else {
  const directory = read.flags.get("config_dir")?.at(-1) ?? "";
  const merges = read.flags.get("merge_domain_configs")?.at(-1) === "true";
  process.stdout.write(`checking rate limit configs...\nloading config directory: ${directory}\n`);
  const { lines, exitCode } = await checkConfig(directory, merges);
  process.stdout.write(lines.map((line) => `${line}\n`).join(""));
  process.exitCode = exitCode;
}
