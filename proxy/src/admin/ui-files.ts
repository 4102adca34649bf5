/** The web page: files that were built beforehand, read once, so that a path can never lead out of their folder. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname, join, relative, sep } from "node:path";
import { type AdminAnswer, refuse } from "./endpoint.ts";

const contentTypes: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".json": "application/json",
  ".woff2": "font/woff2",
};

/** Only what is served here runs, and it speaks to this server alone. */
const contentSecurityPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * Answers `/ui` with `index.html` and `/ui/PATH` with the file there; nothing where the folder has no such file.
 *
 * @param directory that the build wrote; where it is not there, `/ui` says how to build it.
 */
export function readUiFiles(directory: string): (path: string) => AdminAnswer | undefined {
  const files = new Map<string, AdminAnswer>();
  for (const file of listFiles(directory)) {
    const name = relative(directory, file).split(sep).join("/");
    const contentType = contentTypes[extname(file)] ?? "application/octet-stream";
    const asset = { kind: "asset", bytes: readFileSync(file), contentType, contentSecurityPolicy } as const;
    files.set(`/ui/${name}`, asset);
    if (name === "index.html") files.set("/ui", asset);
  }
  const page = files.get("/ui") ?? notBuilt;
  return (path) => (path === "/ui" || path === "/ui/" ? page : files.get(path));
}

const notBuilt = refuse(404, "the page has not been built", "npm run build:ui, then start the proxy again");

function listFiles(directory: string): readonly string[] {
  if (!existsSync(directory)) return [];
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}
