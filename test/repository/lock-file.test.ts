import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

/** What this test reads of an npm lock file, version 3. */
interface LockFile {
  readonly packages: Readonly<Record<string, { readonly optionalDependencies?: Readonly<Record<string, string>> }>>;
}

test("the lock file lists every platform of a package that ships one binary per platform", () => {
  // A lock written where the registry could not serve some of them lacks their entries, and `npm ci` then refuses it
  // on every machine.
  const text = readFileSync(new URL("../../package-lock.json", import.meta.url), "utf8");
  const { packages } = JSON.parse(text) as LockFile;
  const listed = new Set(Object.keys(packages).map((path) => path.slice(path.lastIndexOf("node_modules/") + 13)));
  const wanted = Object.values(packages).flatMap((each) => Object.keys(each.optionalDependencies ?? {}));
  expect(wanted.filter((name) => !listed.has(name))).toEqual([]);
});
