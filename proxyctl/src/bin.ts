#!/usr/bin/env node
/** The program `proxyctl` as packed: a bundle for any Node that the user has. main.ts runs from sources. */
import module from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";
import { exitCodes, renderFailure } from "./command-error.ts";

/** The minimum version for the HTTP client of the Kubernetes library; `engines` of the package says the same. */
const oldest = { major: 22, minor: 19 };

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major > oldest.major || (major === oldest.major && minor >= oldest.minor)) {
  // The cache is in a folder of the user. Node's default is below the temporary folder, where others could write.
  const caches = process.env["XDG_CACHE_HOME"] ?? "";
  module.enableCompileCache(join(caches === "" ? join(homedir(), ".cache") : caches, "proxyctl"));
  await import("./main.ts");
} else {
  const message = `start with Node ${process.versions.node} (${process.execPath}): proxyctl needs at least ${oldest.major}.${oldest.minor}`;
  const advice = ["install a newer Node, or the executable of proxyctl, which contains its own"];
  process.stderr.write(renderFailure({ message, advice }));
  process.exitCode = exitCodes.failed;
}
