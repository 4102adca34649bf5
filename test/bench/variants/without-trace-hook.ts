/**
 * Preloaded (`node --import`) into a proxy of the benchmark: removes every check whether a request is traced from the
 * data path as it is loaded, so that the rest can be compared with the shipped code. Fails if it finds another number
 * of checks than expected: then the list must be reviewed.
 */
import { type ModuleSource, registerHooks } from "node:module";

const checks = [
  /if \((?:this\.)?services\.tracer\.isWatching\) [^;]+;/g,
  /if \(this\.trace !== undefined[^{]*?\) [^;]+;/g,
  /if \(trace !== undefined[^{]*?\) [^;]+;/g,
  /this\.#trace\?\.\w+\([^;]+;/g,
];

/** Checks by file of the data path. */
const expected: Readonly<Record<string, number>> = {
  "exchange.ts": 3,
  "local-limits.ts": 1,
  "global-limits.ts": 1,
  "rejected-request.ts": 1,
  "forwarding.ts": 8,
};

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const [, file = ""] = /\/proxy\/src\/(?:pipeline|data-plane)\/(?:\w+\/)?([^/]+)$/.exec(url) ?? [];
    const count = expected[file];
    if (count === undefined) return loaded;
    let removed = 0;
    let source = textOf(loaded.source);
    for (const check of checks) {
      source = source.replace(check, () => {
        removed++;
        return "";
      });
    }
    if (removed !== count) throw new Error(`${file} has ${removed} checks for a trace, expected ${count}`);
    return { ...loaded, source };
  },
});

function textOf(source: ModuleSource | undefined | null): string {
  return typeof source === "string" ? source : new TextDecoder().decode(source ?? undefined);
}
