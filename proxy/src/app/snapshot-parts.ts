/**
 * Sends a snapshot to the workers as a frame and its parts. A part is the JSON text of a value that many places share (the
 * rules of a route, limits of a policy, a listener, a backend, a certificate, the PEM text of authorities), named by its
 * hash. A snapshot crosses threads in parts that are short enough for the event loop. A part that a worker has is not
 * sent again. Equal values are one object in the worker, so the worker finds what it compiled from a value by identity.
 */
import { hash } from "node:crypto";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { GlobalLimit } from "../ir/global-limit.ts";
import type { LocalLimit } from "../ir/limit.ts";
import type {
  Backend,
  Bind,
  Certificate,
  ClientCertificate,
  ClientValidation,
  Listener,
  ListenerTls,
  Route,
  RouteRule,
  Snapshot,
  UpstreamTls,
} from "../ir/snapshot.ts";

/** The hash of a part's text. */
export type PartKey = string;

/** A snapshot whose listeners and backends are named by their parts. */
export interface SnapshotFrame {
  readonly generation: number;
  readonly binds: readonly FrameBind[];
  readonly backends: readonly PartKey[];
}

/** A bind whose listeners are named by their parts. */
export interface FrameBind extends Pick<Bind, "address" | "port"> {
  readonly listeners: readonly PartKey[];
}

/** A snapshot as it is sent. */
export interface PackedSnapshot {
  readonly frame: SnapshotFrame;
  /** Every part that the frame names, and those that parts name; the named ones come first. */
  readonly parts: ReadonlyMap<PartKey, string>;
}

interface PackedListener extends Omit<Listener, "routes" | "tls"> {
  readonly routes: readonly PackedRoute[];
  readonly tls?: PackedListenerTls;
}

interface PackedListenerTls extends Omit<ListenerTls, "certificates" | "clientValidation"> {
  readonly certificates: readonly PartKey[];
  readonly clientValidation?: Omit<ClientValidation, "authorities"> & { readonly authorities: PartKey };
}

interface PackedBackend extends Omit<Backend, "tls"> {
  readonly tls?: PackedUpstreamTls;
}

interface PackedUpstreamTls extends Omit<UpstreamTls, "authorities" | "clientCertificate"> {
  readonly authorities?: PartKey;
  readonly clientCertificate?: PartKey;
}

interface PackedRoute extends Omit<Route, "rules"> {
  readonly rules: PartKey;
}

/** `limits` names the part of a list of parts of `PackedLimits`: a policy on a Gateway is in the lists of every rule. */
interface PackedRule extends Omit<RouteRule, "limits" | "globalLimits"> {
  readonly limits: PartKey;
  readonly globalLimits?: PartKey;
}

/** The limits of a policy at one of its targets. `entries` names the part that all of its targets share. */
interface PackedLimits {
  readonly target: string;
  /** By entry. */
  readonly counters: readonly string[];
  readonly entries: PartKey;
}

interface PackedEntry extends Omit<LocalLimit, "target" | "counter" | "key"> {
  readonly key?: PartKey;
}

interface PackedGlobalLimit extends Omit<GlobalLimit, "descriptors" | "fallback"> {
  readonly descriptors: PartKey;
  readonly fallback: PartKey;
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
    backendKeys.push(packer.backend(backend));
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
  readonly #known = new Map<object | string, PartKey>();
  /** Those of a policy at a target, by the first of them. */
  readonly #limitsOf = new Map<LocalLimit, { readonly limits: readonly LocalLimit[]; readonly key: PartKey }>();

  #part(value: object | string): PartKey {
    const text = JSON.stringify(value);
    const key = hash("sha256", text, "base64");
    if (!this.parts.has(key)) this.parts.set(key, text);
    return key;
  }

  /** The part of a value that many places share. */
  #shared(value: object | string): PartKey {
    const known = this.#known.get(value) ?? this.#part(value);
    this.#known.set(value, known);
    return known;
  }

  /** A part that names the part of each text: the same text belongs to many lists. */
  #texts(texts: readonly string[]): PartKey {
    return this.#part(texts.map((text) => this.#shared(text)));
  }

  backend({ tls, ...backend }: Backend): PartKey {
    if (tls === undefined) return this.#part(backend satisfies PackedBackend);
    const { authorities, clientCertificate, ...rest } = tls;
    return this.#part({
      ...backend,
      tls: {
        ...rest,
        ...(authorities !== undefined && { authorities: this.#texts(authorities) }),
        ...(clientCertificate !== undefined && { clientCertificate: this.#shared(clientCertificate) }),
      },
    } satisfies PackedBackend);
  }

  *listener({ routes, tls, ...listener }: Listener): Steps<PartKey> {
    const packed: PackedRoute[] = [];
    for (const { rules, ...route } of routes) {
      packed.push({ ...route, rules: this.#rules(rules) });
      yield;
    }
    return this.#part({
      ...listener,
      ...(tls !== undefined && { tls: this.#listenerTls(tls) }),
      routes: packed,
    } satisfies PackedListener);
  }

  #listenerTls({ certificates, clientValidation, ...tls }: ListenerTls): PackedListenerTls {
    return {
      ...tls,
      certificates: certificates.map((certificate) => this.#shared(certificate)),
      ...(clientValidation !== undefined && {
        clientValidation: { ...clientValidation, authorities: this.#texts(clientValidation.authorities) },
      }),
    };
  }

  #rules(rules: Route["rules"]): PartKey {
    const known = this.#known.get(rules);
    if (known !== undefined) return known;
    const packed = rules.map(({ limits, globalLimits, ...rule }): PackedRule => {
      return {
        ...rule,
        limits: this.#limits(limits),
        ...(globalLimits !== undefined && {
          globalLimits: this.#once(globalLimits, () => globalLimits.map((limit) => this.#globalLimit(limit))),
        }),
      };
    });
    const key = this.#part(packed);
    this.#known.set(rules, key);
    return key;
  }

  #limits(limits: readonly LocalLimit[]): PartKey {
    return this.#once(limits, () => limitsByTarget(limits).map((group) => this.#limitsOfTarget(group)));
  }

  #limitsOfTarget(limits: readonly LocalLimit[]): PartKey {
    const [first] = limits;
    const known = first && this.#limitsOf.get(first);
    if (known?.limits.length === limits.length && known.limits.every((limit, at) => limit === limits[at])) {
      return known.key;
    }
    const counters: string[] = [];
    const entries: PackedEntry[] = [];
    let targetOfAll = "";
    for (const { target, counter, key, ...entry } of limits) {
      targetOfAll = target;
      counters.push(counter);
      entries.push({ ...entry, ...(key !== undefined && { key: this.#shared(key) }) });
    }
    const part: PackedLimits = { target: targetOfAll, counters, entries: this.#part(entries) };
    const packed = { limits, key: this.#part(part) };
    if (first !== undefined) this.#limitsOf.set(first, packed);
    return packed.key;
  }

  #globalLimit(limit: GlobalLimit): PartKey {
    return this.#once(limit, (): PackedGlobalLimit => {
      const { descriptors, fallback, ...rest } = limit;
      return {
        ...rest,
        descriptors: this.#shared(descriptors),
        fallback: this.#limits(fallback),
      };
    });
  }

  /** The part of a value that is packed once. */
  #once(value: object, pack: () => object): PartKey {
    const known = this.#known.get(value) ?? this.#part(pack());
    this.#known.set(value, known);
    return known;
  }
}

/** The limits in their order, in lists of those of one policy and target that follow one another. */
function limitsByTarget(limits: readonly LocalLimit[]): readonly (readonly LocalLimit[])[] {
  const groups: LocalLimit[][] = [];
  for (const limit of limits) {
    const [last] = groups.at(-1) ?? [];
    if (last?.policy === limit.policy && last.target === limit.target) groups.at(-1)?.push(limit);
    else groups.push([limit]);
  }
  return groups;
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

/** The parts that a worker has. The main thread says which parts come and which go, so both sides agree. */
export class ReceivedParts {
  readonly #values = new Map<PartKey, unknown>();
  /** Values made of several parts, for as long as the part that names the others is there. */
  readonly #assembled = new Map<PartKey, unknown>();

  take(batch: PartBatch): void {
    for (const [key, text] of batch) this.#values.set(key, JSON.parse(text));
  }

  forget(keys: readonly PartKey[]): void {
    for (const key of keys) {
      this.#values.delete(key);
      this.#assembled.delete(key);
    }
  }

  /** Assembles a snapshot, in steps of one route each. Throws if a part is missing. */
  *assemble({ generation, binds, backends: keys }: SnapshotFrame): Steps<Snapshot> {
    const assembled: Bind[] = [];
    for (const { listeners, ...bind } of binds) {
      const ofBind: Listener[] = [];
      for (const key of listeners) ofBind.push(yield* this.#listener(key));
      assembled.push({ ...bind, listeners: ofBind });
    }
    const backends = keys.map((key) => this.#backend(key));
    return { generation, binds: assembled, backends: Object.fromEntries(backends.map((each) => [each.key, each])) };
  }

  /** The value of a part. Its type follows from the place that names it, as `packSnapshot` has packed it. */
  #part(key: PartKey): unknown {
    const value = this.#values.get(key);
    if (value === undefined) throw new Error(`part ${key} of the snapshot is missing`);
    return value;
  }

  /** Makes a value of a part and the parts that it names. The same part gives the same object, which is compiled once. */
  #assembledOf<Value>(key: PartKey, make: () => Value): Value {
    const known = this.#assembled.get(key);
    // A key is the hash of a part that is assembled in one way.
    if (known !== undefined) return known as Value;
    const value = make();
    this.#assembled.set(key, value);
    return value;
  }

  *#listener(key: PartKey): Steps<Listener> {
    const { routes: packed, tls, ...listener } = this.#part(key) as PackedListener;
    const routes: Route[] = [];
    for (const { rules, ...route } of packed) {
      routes.push({ ...route, rules: this.#rules(rules) });
      yield;
    }
    if (tls === undefined) return { ...listener, routes };
    return { ...listener, tls: this.#assembledOf(key, () => this.#listenerTls(tls)), routes };
  }

  #listenerTls({ certificates, clientValidation, ...tls }: PackedListenerTls): ListenerTls {
    return {
      ...tls,
      certificates: certificates.map((key) => this.#part(key) as Certificate),
      ...(clientValidation !== undefined && {
        clientValidation: { ...clientValidation, authorities: this.#texts(clientValidation.authorities) },
      }),
    };
  }

  #backend(key: PartKey): Backend {
    const { tls, ...backend } = this.#part(key) as PackedBackend;
    return this.#assembledOf(key, () => ({ ...backend, ...(tls !== undefined && { tls: this.#upstreamTls(tls) }) }));
  }

  #upstreamTls({ authorities, clientCertificate, ...tls }: PackedUpstreamTls): UpstreamTls {
    return {
      ...tls,
      ...(authorities !== undefined && { authorities: this.#texts(authorities) }),
      ...(clientCertificate !== undefined && {
        clientCertificate: this.#part(clientCertificate) as ClientCertificate,
      }),
    };
  }

  #texts(key: PartKey): readonly string[] {
    return this.#list(key, (text) => this.#part(text) as string);
  }

  #rules(key: PartKey): Route["rules"] {
    return this.#assembledOf(key, () =>
      (this.#part(key) as readonly PackedRule[]).map(({ limits, globalLimits, ...rule }): RouteRule => {
        return {
          ...rule,
          limits: this.#limits(limits),
          ...(globalLimits !== undefined && {
            globalLimits: this.#list(globalLimits, (each) => this.#globalLimit(each)),
          }),
        };
      }),
    );
  }

  #list<Value>(key: PartKey, valueOf: (key: PartKey) => Value): readonly Value[] {
    return this.#assembledOf(key, () => (this.#part(key) as readonly PartKey[]).map(valueOf));
  }

  #limits(key: PartKey): readonly LocalLimit[] {
    return this.#assembledOf(key, () =>
      (this.#part(key) as readonly PartKey[]).flatMap((each) => this.#limitsOfTarget(each)),
    );
  }

  #limitsOfTarget(key: PartKey): readonly LocalLimit[] {
    return this.#assembledOf(key, () => {
      const { target, counters, entries } = this.#part(key) as PackedLimits;
      return (this.#part(entries) as readonly PackedEntry[]).map(({ key: expression, ...entry }, at): LocalLimit => {
        const counter = counters[at] ?? "";
        return {
          counter,
          target,
          ...entry,
          ...(expression !== undefined && { key: this.#part(expression) as string }),
        };
      });
    });
  }

  #globalLimit(key: PartKey): GlobalLimit {
    return this.#assembledOf(key, () => {
      const { descriptors, fallback, ...limit } = this.#part(key) as PackedGlobalLimit;
      return {
        ...limit,
        descriptors: this.#part(descriptors) as GlobalLimit["descriptors"],
        fallback: this.#limits(fallback),
      };
    });
  }
}
