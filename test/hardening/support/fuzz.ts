/**
 * One fuzzer is one call of `fuzz`. It replays the cases in `test/hardening/corpus/<name>`, then tries random ones: for
 * HARDENING_SECONDS under `npm run test:hardening`, and a few fixed ones under `npm test`. A case that fails is shrunk
 * and written to the corpus, to be committed with its fix.
 *
 * HARDENING_SEED repeats a run whose seed was printed.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import fc from "fast-check";
import { describe, test } from "vitest";

/** A case is a JSON value, so that it can be stored in a file. Bytes are a string in latin1. */
export type FuzzCase =
  | string
  | number
  | boolean
  | null
  | readonly FuzzCase[]
  | { readonly [name: string]: FuzzCase | undefined };

export interface Fuzzer<Case extends FuzzCase> {
  readonly arbitrary: fc.Arbitrary<Case>;
  /** Throws or rejects if the case violates the rule. */
  readonly check: (value: Case) => void | Promise<void>;
  /** Starts the resources that the cases of a test share, which may take longer than the cases. */
  readonly prepare?: () => Promise<unknown>;
  /** Random cases under `npm test`. Default 25. */
  readonly quickRuns?: number;
}

/** Seconds for random cases; undefined under `npm test`. */
export const hardeningSeconds =
  process.env["HARDENING_SECONDS"] === undefined ? undefined : Number(process.env["HARDENING_SECONDS"]);

const corpus = join(import.meta.dirname, "..", "corpus");
const repository = join(corpus, "../../..");

/** Defines the tests of a fuzzer. @param name of its folder in the corpus */
export function fuzz<Case extends FuzzCase>(
  name: string,
  { arbitrary, check, prepare, quickRuns = 25 }: Fuzzer<Case>,
): void {
  const folder = join(corpus, name);
  const files = existsSync(folder) ? readdirSync(folder).filter((file) => file.endsWith(".json")) : [];
  describe(`fuzz ${name}`, () => {
    test.each(files)("kept case %s", async (file) => {
      // The cases of this corpus belong to this fuzzer.
      await check(JSON.parse(readFileSync(join(folder, file), "utf8")) as Case);
    });

    test("random cases", { timeout: 300_000 + 2_000 * (hardeningSeconds ?? 0) }, async () => {
      await prepare?.();
      const startedMs = performance.now();
      const property = fc.asyncProperty(arbitrary, async (value) => check(value));
      const result = await fc.check<unknown>(property, fuzzParameters(quickRuns));
      const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
      if (!result.failed) {
        if (hardeningSeconds === undefined) return;
        console.log(`fuzz ${name}: ${result.numRuns} cases in ${seconds} s, HARDENING_SEED=${result.seed}`);
        return;
      }
      // The values of the property's one arbitrary; null if no case could be generated.
      const found = result.counterexample as readonly [Case] | null;
      const file = found === null ? "nowhere" : relative(repository, keep(folder, found[0]));
      const message = `${fc.defaultReportMessage(result)}\nThe case is kept in ${file}`;
      throw new Error(message, { cause: result.errorInstance });
    });
  });
}

/** For fast-check: HARDENING_SECONDS of random cases, or `quickRuns` cases of a fixed seed. */
export function fuzzParameters(quickRuns: number): fc.Parameters<unknown> {
  const seed = process.env["HARDENING_SEED"];
  if (hardeningSeconds === undefined) return { seed: Number(seed ?? 1), numRuns: quickRuns };
  return {
    ...(seed !== undefined && { seed: Number(seed) }),
    numRuns: Number.MAX_SAFE_INTEGER,
    plugins: [fc.interruptAfterTimeLimit(hardeningSeconds * 1_000)],
  };
}

/** Writes a case to the corpus; its name is a digest, so that the same case is stored once. */
function keep(folder: string, value: FuzzCase): string {
  const text = `${JSON.stringify(value, undefined, 2)}\n`;
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${createHash("sha256").update(text).digest("hex").slice(0, 12)}.json`);
  writeFileSync(file, text);
  return file;
}
