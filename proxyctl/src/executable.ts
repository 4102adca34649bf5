/**
 * The program `proxyctl` as one executable. The bundled modules are assets in the executable; each is loaded when it is
 * imported. `pack-proxyctl.ts` passes this file to `node --build-sea` as a CommonJS script; main.ts runs from sources.
 *
 * Node loads the whole main script of an executable. One script with all dependencies takes 130 ms at each start,
 * mostly for modules that the command does not need.
 */
import { createRequire, isBuiltin, registerHooks } from "node:module";
import { getRawAsset } from "node:sea";
import { pathToFileURL } from "node:url";

/**
 * A folder that cannot exist, since the executable is a file: no file on disk can be taken for one of these modules.
 */
const folder = `${pathToFileURL(process.execPath).href}/`;
/**
 * Node gives the main script a loader of built-in modules only. An `import()` in any other script has the full loader.
 */
const start = `${folder}start.cjs`;

registerHooks({
  resolve(specifier, context, next) {
    const isAsset = specifier === start || context.parentURL?.startsWith(folder) === true;
    if (!isAsset || isBuiltin(specifier)) return next(specifier, context);
    const url = new URL(specifier, context.parentURL).href;
    return { url, format: url === start ? "commonjs" : "module", shortCircuit: true };
  },
  load(url, context, next) {
    if (url === start) return { format: "commonjs", source: 'import("./proxyctl.js");', shortCircuit: true };
    if (!url.startsWith(folder)) return next(url, context);
    const source = new TextDecoder().decode(getRawAsset(url.slice(folder.length)));
    return { format: "module", source, shortCircuit: true };
  },
});
createRequire(process.execPath)(start);
