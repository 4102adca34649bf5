/**
 * Preloaded (`node --import`) into a proxy of the benchmark: takes every look at whether a request is watched out of the
 * data path as it is loaded, so that what remains can be compared with what ships. Fails where it finds another number
 * of them than it knows: then someone has to look whether these are still all.
 */
import { type ModuleSource, registerHooks } from "node:module";

const looks = [
  /if \((?:this\.#)?services\.tracer\.isWatching\) [^;]+;/g,
  /if \(this\.#trace !== undefined[^{]*?\) [^;]+;/g,
  /if \((?:this\.#options\.)?trace !== undefined[^{]*?\) [^;]+;/g,
  /this\.#options\.trace\?\.emit\([^;]+;/g,
];

/** Looks by file of the data path. */
const expected: Readonly<Record<string, number>> = {
  "exchange.ts": 3,
  "limit-check.ts": 2,
  "data-plane.ts": 1,
  "forwarding.ts": 3,
};

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const [, file = ""] = /\/proxy\/src\/server\/([^/]+)$/.exec(url) ?? [];
    const count = expected[file];
    if (count === undefined) return loaded;
    let removed = 0;
    let source = textOf(loaded.source);
    for (const look of looks) {
      source = source.replace(look, () => {
        removed++;
        return "";
      });
    }
    if (removed !== count) throw new Error(`${file} looks ${removed} times whether it is watched, expected ${count}`);
    return { ...loaded, source };
  },
});

function textOf(source: ModuleSource | undefined | null): string {
  return typeof source === "string" ? source : new TextDecoder().decode(source ?? undefined);
}
