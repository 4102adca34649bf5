/**
 * Counts the operands and results of the CEL functions, independently of the charges of `cost.ts`. A test file
 * inserts it below the charges:
 *
 *     vi.mock(import("@bufbuild/cel"), async (original) => {
 *       const { withCountedWork } = await import("./testing/counted-work.ts");
 *       return withCountedWork(await original());
 *     });
 */
import type { CelEnv, CelResult, CelValue } from "@bufbuild/cel";

export interface Work {
  /** Function calls. */
  calls: number;
  /** UTF-16 code units and bytes of the operands. */
  charactersRead: number;
  charactersMade: number;
  /** Elements of the lists in the results. */
  elementsMade: number;
}

const none: Work = { calls: 0, charactersRead: 0, charactersMade: 0, elementsMade: 0 };

const done: Work = { ...none };

/** Runs `evaluate` and counts the work of its functions. */
export function workOf(evaluate: () => unknown): Readonly<Work> {
  Object.assign(done, none);
  evaluate();
  return { ...done };
}

/** The units for this work at the lowest cost of any function. */
export function leastUnits({ calls, charactersRead, charactersMade, elementsMade }: Readonly<Work>): number {
  return 10 * calls + charactersRead / 8 + charactersMade / 8 + 2 * elementsMade;
}

type Library = typeof import("@bufbuild/cel");
type FuncGroup = NonNullable<ReturnType<CelEnv["funcs"]["find"]>>;

/** Returns the library with functions that count their work. */
export function withCountedWork(library: Library): Library {
  const { isCelError, isCelList } = library;

  function counted(name: string, group: FuncGroup): FuncGroup {
    const call: FuncGroup["call"] = (id, target, args) => {
      done.calls += 1;
      done.charactersRead += charactersRead(name, target, args);
      const result = group.call(id, target, args);
      if (result === undefined || isCelError(result)) return result;
      done.charactersMade += lengthOf(result);
      if (isCelList(result)) done.elementsMade += result.size;
      return result;
    };
    return Object.create(group, { call: { value: call } }) as FuncGroup;
  }

  const celEnv: Library["celEnv"] = (options) => {
    const env = library.celEnv(options);
    const find = (name: string): FuncGroup | undefined => {
      const group = env.funcs.find(name);
      return group === undefined ? undefined : counted(name, group);
    };
    const funcs = Object.create(env.funcs, { find: { value: find } }) as CelEnv["funcs"];
    return Object.create(env, { funcs: { value: funcs } }) as CelEnv;
  };
  return { ...library, celEnv };
}

/** Functions that search a text for a part. They read no more of the part than the text is long. */
const searching = new Set(["contains", "indexOf", "lastIndexOf", "split", "startsWith", "endsWith"]);

function charactersRead(name: string, target: CelValue | undefined, args: readonly CelValue[]): number {
  // The separator is read once per occurrence in the result.
  if (name === "join") return 0;
  const own = lengthOf(target);
  return args.reduce<number>((sum, each) => {
    const length = lengthOf(each);
    return sum + (searching.has(name) ? Math.min(own, length) : length);
  }, own);
}

function lengthOf(value: CelResult | undefined): number {
  return typeof value === "string" || value instanceof Uint8Array ? value.length : 0;
}
