/**
 * Finds the programs that tests and benchmarks run beside the code (Redis, Envoy, load generators).
 * `scripts/install-test-programs.sh` installs them; nothing here installs or starts one. `describe-with.ts` decides how
 * a test behaves without its program.
 */
import { accessSync, constants, statSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";

/** Every program that a test may require. The install script installs each. */
export const testPrograms = [
  "curl",
  "openssl",
  "redis-server",
  "memcached",
  "nginx",
  "wrk",
  "h2load",
  "nghttp",
  "envoy",
  "ratelimit",
  "go",
  "grpcurl",
  "h2spec",
  "otelcol",
  "promread",
  "jaeger",
  "chromium",
  "tmux",
  "shellcheck",
  "actionlint",
  "faketime",
] as const;

export type TestProgram = (typeof testPrograms)[number];

/** The command that installs missing programs, for messages. */
export const installCommand = "scripts/install-test-programs.sh";

/** Environment variables that name a binary and override every search. */
const overrides: Partial<Record<TestProgram, string>> = {
  envoy: "ENVOY",
  ratelimit: "RATELIMIT_REFERENCE",
};

/**
 * The path of a program's binary, or undefined where it is not installed. Searched in this order: the override of the
 * environment (`ENVOY`, `RATELIMIT_REFERENCE`), PATH, the directories where Debian keeps servers, and the folder of the
 * install script, `${XDG_CACHE_HOME:-~/.cache}/gatewayproxy/bin`.
 */
export function findProgram(name: TestProgram, env: NodeJS.ProcessEnv = process.env): string | undefined {
  const override = env[overrides[name] ?? ""];
  if (override !== undefined && override !== "") return isExecutable(override) ? override : undefined;
  const cache = env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  const folders = [...(env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/sbin", join(cache, "gatewayproxy", "bin")];
  return folders
    .filter((folder) => folder !== "")
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

/** The path of a program's binary; throws an error that names the install script where it is not installed. */
export function requireProgram(name: TestProgram, env: NodeJS.ProcessEnv = process.env): string {
  const found = findProgram(name, env);
  if (found === undefined) throw new Error(`${name} is not installed; run ${installCommand}`);
  return found;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
