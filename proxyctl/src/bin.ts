#!/usr/bin/env node
/** The program `proxyctl` as it is packed: bundled, for whatever Node the user has. Sources are run by main.ts. */
import module from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";
import { exitCodes, renderFailure } from "./command-error.ts";

/** What the HTTP client of the Kubernetes library takes; `engines` of the package says the same. */
const oldest = { major: 22, minor: 19 };

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major > oldest.major || (major === oldest.major && minor >= oldest.minor)) {
  // In a folder of the user's own: others could write to Node's own choice, below that for temporary files.
  const caches = process.env["XDG_CACHE_HOME"] ?? "";
  module.enableCompileCache(join(caches === "" ? join(homedir(), ".cache") : caches, "proxyctl"));
  await import("./main.ts");
} else {
  const message = `start with Node ${process.versions.node} (${process.execPath}): it is older than ${oldest.major}.${oldest.minor}`;
  const advice = ["install a newer Node, or the executable of proxyctl, which brings its own"];
  process.stderr.write(renderFailure({ message, advice }));
  process.exitCode = exitCodes.failed;
}
