/**
 * How a snapshot reaches the workers: as a frame and its parts. A part is the JSON text of something that is the same for
 * many (the rules of a route, a list of limits, a listener, a backend), named by its hash. So a snapshot crosses threads in
 * pieces of which none holds an event loop for long, parts that a worker has are not sent again, and what is equal is one
 * object in the worker: what was compiled of it is found again by identity.
 */
import { hash } from "node:crypto";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Backend, Bind, Listener, Route, RouteRule, Snapshot } from "../ir/snapshot.ts";

/** The hash of a part's text. */
export type PartKey = string;

/** A snapshot whose listeners and backends are named by their parts. */
export interface SnapshotFrame {
  readonly generation: number;
  readonly binds: readonly FrameBind[];
  readonly backends: readonly PartKey[];
}

export interface FrameBind extends Pick<Bind, "address" | "port"> {
  readonly listeners: readonly PartKey[];
}

/** A snapshot as it is sent. */
export interface PackedSnapshot {
  readonly frame: SnapshotFrame;
  /** Every part that the frame names, and those that parts name; the named ones come first. */
  readonly parts: ReadonlyMap<PartKey, string>;
}

interface PackedListener extends Omit<Listener, "routes"> {
  readonly routes: readonly PackedRoute[];
}

interface PackedRoute extends Omit<Route, "rules"> {
  readonly rules: PartKey;
}

interface PackedRule extends Omit<RouteRule, "limits" | "globalLimits"> {
  readonly limits: PartKey;
  readonly globalLimits?: PartKey;
}

/** Packs a snapshot, in steps of one part each. */
export function* packSnapshot({ generation, binds, backends }: Snapshot): Steps<PackedSnapshot> {
  const packer = new Packer();
  const frameBinds: FrameBind[] = [];
  for (const { listeners, ...bind } of binds) {
    const keys: PartKey[] = [];
    for (const listener of listeners) keys.push(yield* packer.listener(listener));
    frameBinds.push({ ...bind, listeners: keys });
  }
  const backendKeys: PartKey[] = [];
  for (const backend of Object.values(backends)) {
    backendKeys.push(packer.part(backend));
    yield;
  }
  return { frame: { generation, binds: frameBinds, backends: backendKeys }, parts: packer.parts };
}

/** Whether two snapshots are the same but for their generation. */
export function isSameFrame(a: SnapshotFrame, b: SnapshotFrame): boolean {
  return JSON.stringify([a.binds, a.backends]) === JSON.stringify([b.binds, b.backends]);
}

class Packer {
  readonly parts = new Map<PartKey, string>();
  /** By what they were made of: translation gives the same lists to many. */
  readonly #known = new Map<object, PartKey>();

  part(value: object): PartKey {
    const text = JSON.stringify(value);
    const key = hash("sha256", text, "base64");
    if (!this.parts.has(key)) this.parts.set(key, text);
    return key;
  }

  *listener({ routes, ...listener }: Listener): Steps<PartKey> {
    const packed: PackedRoute[] = [];
    for (const { rules, ...route } of routes) {
      packed.push({ ...route, rules: this.#rules(rules) });
      yield;
    }
    return this.part({ ...listener, routes: packed } satisfies PackedListener);
  }

  #rules(rules: Route["rules"]): PartKey {
    const known = this.#known.get(rules);
    if (known !== undefined) return known;
    const packed = rules.map(({ limits, globalLimits, ...rule }): PackedRule => {
      return {
        ...rule,
        limits: this.#list(limits),
        ...(globalLimits !== undefined && { globalLimits: this.#list(globalLimits) }),
      };
    });
    const key = this.part(packed);
    this.#known.set(rules, key);
    return key;
  }

  #list(list: readonly object[]): PartKey {
    const known = this.#known.get(list) ?? this.part(list);
    this.#known.set(list, known);
    return known;
  }
}

/** Some parts, with their keys. */
export type PartBatch = readonly (readonly [PartKey, string])[];

/** In characters: reading so much takes a few milliseconds. A part that is longer is a batch of its own. */
const batchLength = 128 * 1024;

/** The parts of a snapshot in batches, without those that are known already. */
export function* batchesOf({ parts }: PackedSnapshot, known: ReadonlySet<PartKey>): Generator<PartBatch> {
  let batch: (readonly [PartKey, string])[] = [];
  let length = 0;
  for (const part of parts) {
    if (known.has(part[0])) continue;
    batch.push(part);
    length += part[1].length;
    if (length < batchLength) continue;
    yield batch;
    batch = [];
    length = 0;
  }
  if (batch.length > 0) yield batch;
}

/** The parts that a worker has. The main thread says which ones come and which ones go, so that both know the same. */
export class ReceivedParts {
  readonly #values = new Map<PartKey, unknown>();
  /** Rules with their limits, for as long as their part is there. */
  readonly #rules = new Map<PartKey, Route["rules"]>();

  take(batch: PartBatch): void {
    for (const [key, text] of batch) this.#values.set(key, JSON.parse(text));
  }

  forget(keys: readonly PartKey[]): void {
    for (const key of keys) {
      this.#values.delete(key);
      this.#rules.delete(key);
    }
  }

  /** Puts a snapshot together, in steps of one route each. Fails where one of its parts has not come. */
  *assemble({ generation, binds, backends: keys }: SnapshotFrame): Steps<Snapshot> {
    const assembled: Bind[] = [];
    for (const { listeners, ...bind } of binds) {
      const ofBind: Listener[] = [];
      for (const key of listeners) ofBind.push(yield* this.#listener(key));
      assembled.push({ ...bind, listeners: ofBind });
    }
    const backends = keys.map((key) => this.#part(key) as Backend);
    return { generation, binds: assembled, backends: Object.fromEntries(backends.map((each) => [each.key, each])) };
  }

  /** A part. What it is follows from where it is named, as `packSnapshot` has put it there. */
  #part(key: PartKey): unknown {
    const value = this.#values.get(key);
    if (value === undefined) throw new Error(`part ${key} of the snapshot has not come`);
    return value;
  }

  *#listener(key: PartKey): Steps<Listener> {
    const { routes: packed, ...listener } = this.#part(key) as PackedListener;
    const routes: Route[] = [];
    for (const { rules, ...route } of packed) {
      routes.push({ ...route, rules: this.#rulesOf(rules) });
      yield;
    }
    return { ...listener, routes };
  }

  /** The same object for the same rules, so that nothing is compiled again that has not changed. */
  #rulesOf(key: PartKey): Route["rules"] {
    const known = this.#rules.get(key);
    if (known !== undefined) return known;
    const packed = this.#part(key) as readonly PackedRule[];
    const rules = packed.map(({ limits, globalLimits, ...rule }): RouteRule => {
      return {
        ...rule,
        limits: this.#part(limits) as RouteRule["limits"],
        ...(globalLimits !== undefined && {
          globalLimits: this.#part(globalLimits) as NonNullable<RouteRule["globalLimits"]>,
        }),
      };
    });
    this.#rules.set(key, rules);
    return rules;
  }
}
