/**
 * Encodes V8's profiles in the pprof format (github.com/google/pprof, profile.proto), gzip'd, as `go tool pprof` and
 * other tools read it. Profiles of several threads become one, with the thread as a label of each sample.
 */
import { gzipSync } from "node:zlib";
import { Function as PprofFunction, Line, Location, Profile, Sample, StringTable, ValueType } from "pprof-format";
import { samplingInterval } from "./heap-sampling.ts";

/** V8's profile of one thread. */
export interface ThreadProfile {
  /** The name of the thread: `main`, `worker 1`. */
  readonly thread: string;
  readonly json: string;
}

interface CallFrame {
  readonly functionName: string;
  readonly url: string;
  /** Counts from 0; -1 for a frame that is not in a script. */
  readonly lineNumber: number;
}

/** V8's CPU profile: the nodes of the call tree as a list, and the node that ran at each sample. */
interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: CallFrame;
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
  /** Microseconds between a sample and the one before it. */
  readonly timeDeltas: readonly number[];
}

interface HeapNode {
  readonly callFrame: CallFrame;
  readonly selfSize: number;
  readonly children: readonly HeapNode[];
}

/** V8's default. */
const cpuSamplingNanoseconds = 1_000_000;

/** Encodes CPU time by stack. Samples of idle threads are left out. */
export function encodeCpuProfile(profiles: readonly ThreadProfile[], durationMs: number): Buffer {
  const builder = new PprofBuilder(["samples", "count"], ["cpu", "nanoseconds"]);
  for (const { thread, json } of profiles) {
    const profile = parseCpuProfile(json);
    const stacks = stacksOf(profile, builder);
    for (const [index, nodeId] of profile.samples.entries()) {
      const stack = stacks.get(nodeId);
      if (stack !== undefined) builder.add(stack, thread, [1, (profile.timeDeltas[index] ?? 0) * 1_000]);
    }
  }
  return builder.encode({ durationMs, period: cpuSamplingNanoseconds, periodKind: ["cpu", "nanoseconds"] });
}

/** Encodes the bytes that were allocated since sampling began and are still in use, by stack. */
export function encodeHeapProfile(profiles: readonly ThreadProfile[]): Buffer {
  return encodeHeapChange([], profiles, 0);
}

/**
 * Encodes how the bytes in use changed, by stack: growth is positive, as with `?seconds=` in Go's net/http/pprof.
 *
 * @param durationMs the time between the two profiles.
 */
export function encodeHeapChange(
  before: readonly ThreadProfile[],
  after: readonly ThreadProfile[],
  durationMs: number,
): Buffer {
  const builder = new PprofBuilder(["inuse_space", "bytes"]);
  for (const { thread, json } of after) addHeapNode(builder, { thread, sign: 1 }, headOf(json), []);
  for (const { thread, json } of before) addHeapNode(builder, { thread, sign: -1 }, headOf(json), []);
  return builder.encode({ durationMs, period: samplingInterval, periodKind: ["space", "bytes"] });
}

function headOf(json: string): HeapNode {
  // V8 writes this form.
  return (JSON.parse(json) as { readonly head: HeapNode }).head;
}

/** A function name or file name in a call frame, between the texts that V8 writes before and after it. */
const unescaped = /("functionName":|"url":)"([^]*?)"(,"lineNumber":|\})/g;

/**
 * Parses V8's CPU profile. V8 writes function names without escapes (CpuProfileJSONSerializer), and the function name
 * of a regular expression is its source. A backslash or a quote in it makes invalid JSON; the names are then escaped
 * here.
 */
function parseCpuProfile(json: string): CpuProfile {
  // V8 writes this form.
  try {
    return JSON.parse(json) as CpuProfile;
  } catch {
    return JSON.parse(
      json.replace(unescaped, (_, before: string, name: string, after: string) => {
        return before + JSON.stringify(name) + after;
      }),
    ) as CpuProfile;
  }
}

/** Returns the stack of each node that is not idle, innermost frame first. */
function stacksOf({ nodes }: CpuProfile, builder: PprofBuilder): Map<number, readonly number[]> {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const stacks = new Map<number, readonly number[]>();
  const visit = (id: number, outer: readonly number[]): void => {
    const node = byId.get(id);
    if (node === undefined || node.callFrame.functionName === "(idle)") return;
    const stack = node.callFrame.functionName === "(root)" ? outer : [builder.location(node.callFrame), ...outer];
    stacks.set(id, stack);
    for (const child of node.children ?? []) visit(child, stack);
  };
  visit(nodes[0]?.id ?? 0, []);
  return stacks;
}

interface HeapSide {
  readonly thread: string;
  readonly sign: 1 | -1;
}

function addHeapNode(builder: PprofBuilder, side: HeapSide, node: HeapNode, outer: readonly number[]): void {
  const stack = node.callFrame.functionName === "(root)" ? outer : [builder.location(node.callFrame), ...outer];
  if (node.selfSize > 0) builder.add(stack, side.thread, [side.sign * node.selfSize]);
  for (const child of node.children) addHeapNode(builder, side, child, stack);
}

type ValueKind = readonly [type: string, unit: string];

class PprofBuilder {
  readonly #strings = new StringTable();
  readonly #kinds: readonly ValueKind[];
  readonly #functions: PprofFunction[] = [];
  readonly #locations: Location[] = [];
  readonly #locationIds = new Map<string, number>();
  /** Samples by thread and stack; the values of equal ones are added. */
  readonly #samples = new Map<
    string,
    { readonly stack: readonly number[]; readonly thread: string; values: number[] }
  >();

  constructor(...kinds: readonly ValueKind[]) {
    this.#kinds = kinds;
  }

  /** Returns the id of a frame's location. */
  location(frame: CallFrame): number {
    const key = `${frame.functionName}\n${frame.url}\n${frame.lineNumber}`;
    const known = this.#locationIds.get(key);
    if (known !== undefined) return known;
    const id = this.#locationIds.size + 1;
    const name = this.#strings.dedup(frame.functionName === "" ? "(anonymous)" : frame.functionName);
    const line = frame.lineNumber + 1;
    this.#functions.push(
      new PprofFunction({ id, name, systemName: name, filename: this.#strings.dedup(frame.url), startLine: line }),
    );
    this.#locations.push(new Location({ id, line: [new Line({ functionId: id, line })] }));
    this.#locationIds.set(key, id);
    return id;
  }

  add(stack: readonly number[], thread: string, values: readonly number[]): void {
    const key = `${thread}\n${stack.join(",")}`;
    const existing = this.#samples.get(key);
    if (existing === undefined) this.#samples.set(key, { stack, thread, values: [...values] });
    else existing.values = existing.values.map((value, at) => value + (values[at] ?? 0));
  }

  /** Encodes the profile. @param period the average between two samples, in the unit of `periodKind`. */
  encode({ durationMs, period, periodKind }: { durationMs: number; period: number; periodKind: ValueKind }): Buffer {
    const text = (value: string): number => this.#strings.dedup(value);
    const kindOf = ([type, unit]: ValueKind) => new ValueType({ type: text(type), unit: text(unit) });
    const kinds = this.#kinds.map(kindOf);
    const changed = [...this.#samples.values()].filter(({ values }) => values.some((value) => value !== 0));
    const samples = changed.map(({ stack, thread, values }) => {
      const label = [{ key: text("thread"), str: text(thread) }];
      return new Sample({ locationId: [...stack], value: values, label });
    });
    const profile = new Profile({
      sampleType: kinds,
      sample: samples,
      function: this.#functions,
      location: this.#locations,
      stringTable: this.#strings,
      durationNanos: durationMs * 1_000_000,
      periodType: kindOf(periodKind),
      period,
    });
    return gzipSync(profile.encode());
  }
}
