/**
 * `npm ci` and `npm install` run this at their end: it builds the page of the admin server, so that `/ui` is there whichever
 * way the proxy is started. An install without development dependencies has no bundler and leaves the page out.
 */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

const repository = join(import.meta.dirname, "..");

if (existsSync(join(repository, "node_modules/vite"))) {
  execFileSync("npm", ["run", "--silent", "build:ui"], { cwd: repository, stdio: "inherit" });
}
