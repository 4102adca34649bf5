/**
 * Builds the page of the admin server (`/ui`) if it is missing or older than its source. `npm run proxy` and `npm run
 * demo` run this first. An install without development dependencies has no bundler, so it serves a page only if one was
 * built before.
 */
import { execFileSync } from "node:child_process";
import { existsSync, globSync, statSync } from "node:fs";
import { join } from "node:path";

const repository = join(import.meta.dirname, "..");
const page = join(repository, "admin-ui/dist/index.html");
const sources = globSync("{admin-ui/{index.html,package.json,vite.config.ts,src/**},admin-api/src/**}", {
  cwd: repository,
});

const changedMs = (path: string): number => statSync(path).mtimeMs;
const isBuilt = existsSync(page) && sources.every((source) => changedMs(join(repository, source)) <= changedMs(page));

if (!isBuilt && existsSync(join(repository, "node_modules/vite"))) {
  execFileSync("npm", ["run", "--silent", "build:ui"], { cwd: repository, stdio: "inherit" });
}
