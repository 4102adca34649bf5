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
  charactersWritten: number;
  /** Elements of the lists in the results. */
  elementsWritten: number;
}

const none: Work = { calls: 0, charactersRead: 0, charactersWritten: 0, elementsWritten: 0 };

const done: Work = { ...none };

/** Runs `evaluate` and counts the work of its functions. */
export function workOf(evaluate: () => unknown): Readonly<Work> {
  Object.assign(done, none);
  evaluate();
  return { ...done };
}

/** The units for this work at the lowest cost of any function. */
export function leastUnits({ calls, charactersRead, charactersWritten, elementsWritten }: Readonly<Work>): number {
  return 10 * calls + charactersRead / 8 + charactersWritten / 8 + 2 * elementsWritten;
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
      done.charactersWritten += lengthOf(result);
      if (isCelList(result)) done.elementsWritten += result.size;
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

/** Functions that search a text for a part. They read at most as much of the part as the length of the text. */
const searching = new Set(["contains", "indexOf", "lastIndexOf", "split", "startsWith", "endsWith"]);

function charactersRead(name: string, target: CelValue | undefined, args: readonly CelValue[]): number {
  // The separator is read once per occurrence in the result.
  if (name === "join") return 0;
  const own = lengthOf(target);
  return args.reduce<number>((sum, arg) => {
    const length = lengthOf(arg);
    return sum + (searching.has(name) ? Math.min(own, length) : length);
  }, own);
}

function lengthOf(value: CelResult | undefined): number {
  return typeof value === "string" || value instanceof Uint8Array ? value.length : 0;
}
