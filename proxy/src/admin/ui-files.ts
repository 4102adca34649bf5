/** The built files of the admin UI. All are read once at the start, so that no path can lead out of their folder. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname, join, relative, sep } from "node:path";
import { type AdminResponse, reject } from "./endpoint.ts";

const contentTypes: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".json": "application/json",
  ".woff2": "font/woff2",
};

/** The page runs only its own scripts, and connects only to this server. */
const contentSecurityPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * Returns a function that finds `index.html` for `/ui` and the file for `/ui/PATH`; undefined if the folder has no such
 * file.
 *
 * @param directory The output of the build; if it does not exist, `/ui` explains how to build it.
 */
export function readUiFiles(directory: string): (path: string) => AdminResponse | undefined {
  const files = new Map<string, AdminResponse>();
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

const notBuilt = reject(404, "the page has not been built", "run npm run build:ui, then restart the proxy");

function listFiles(directory: string): readonly string[] {
  if (!existsSync(directory)) return [];
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}
