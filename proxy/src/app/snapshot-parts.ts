/**
 * Converts a snapshot to a frame and parts, to send it to the workers. A part is the JSON text of a value that occurs
 * in many places (the rules of a route, limits of a policy, a listener, a backend, a certificate, the PEM text of
 * authorities), identified by its hash. The parts are short enough not to block the event loop, and a part that a
 * worker has is not sent again. In the worker, equal values are one object, so that the compiled form of a value can be
 * looked up by identity.
 */
import { hash } from "node:crypto";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { ApiKeys, Authentication, TokenIssuer } from "../ir/authentication.ts";
import type { GlobalLimit } from "../ir/global-limit.ts";
import type { LocalLimit } from "../ir/limit.ts";
import type { DeniedResponse } from "../ir/limit-response.ts";
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
  StreamListener,
  StreamRoute,
  UpstreamTls,
} from "../ir/snapshot.ts";

/** The hash of a part's text. */
export type PartKey = string;

/** A snapshot that refers to its listeners and backends by the keys of their parts. */
export interface SnapshotFrame {
  readonly generation: number;
  readonly binds: readonly FrameBind[];
  readonly backends: readonly PartKey[];
}

/** A bind that refers to its listeners by the keys of their parts. */
export interface FrameBind extends Pick<Bind, "address" | "port" | "transport"> {
  readonly listeners: readonly PartKey[];
  readonly streams?: readonly PartKey[];
}

/** A snapshot as it is sent. */
export interface PackedSnapshot {
  readonly frame: SnapshotFrame;
  /** All parts to which the frame or another part refers. A part is listed before the parts that refer to it. */
  readonly parts: ReadonlyMap<PartKey, string>;
}

interface PackedListener extends Omit<Listener, "routes" | "tls"> {
  readonly routes: readonly PackedRoute[];
  readonly tls?: PackedListenerTls;
}

interface PackedStreamListener extends Omit<StreamListener, "routes" | "tls"> {
  readonly routes: readonly PackedStreamRoute[];
  readonly tls?: PackedListenerTls;
}

interface PackedStreamRoute extends Omit<StreamRoute, "limits"> {
  readonly limits: PartKey;
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

/**
 * `limits` is the key of a list of keys of `PackedLimits`, because the policy of a Gateway is in the lists of all
 * rules.
 */
interface PackedRule extends Omit<RouteRule, "authentication" | "limits" | "globalLimits"> {
  readonly authentication?: PartKey;
  readonly limits: PartKey;
  readonly globalLimits?: PartKey;
}

/**
 * The limits of a policy at one of its targets. `entries` is the key of a part that all targets of the policy share.
 */
interface PackedLimits {
  readonly target: string;
  /** One counter for each entry. */
  readonly counters: readonly string[];
  readonly entries: PartKey;
}

/** The issuers and the API keys of a policy are the same at all its targets. */
interface PackedAuthentication extends Omit<Authentication, "issuers" | "apiKeys"> {
  readonly issuers: PartKey;
  readonly apiKeys?: PartKey;
}

interface PackedEntry extends Omit<LocalLimit, "target" | "counter" | "key" | "denied"> {
  readonly key?: PartKey;
  readonly denied?: PartKey;
}

interface PackedGlobalLimit extends Omit<GlobalLimit, "descriptors" | "fallback" | "denied"> {
  readonly denied?: PartKey;
  readonly descriptors: PartKey;
  readonly fallback: PartKey;
}

/** Packs a snapshot, in steps of one part each. */
export function* packSnapshot({ generation, binds, backends }: Snapshot): Steps<PackedSnapshot> {
  const packer = new Packer();
  const frameBinds: FrameBind[] = [];
  for (const { listeners, streams, ...bind } of binds) {
    const keys: PartKey[] = [];
    for (const listener of listeners) keys.push(yield* packer.listener(listener));
    const streamKeys: PartKey[] = [];
    for (const listener of streams ?? []) {
      streamKeys.push(packer.streamListener(listener));
      yield;
    }
    frameBinds.push({ ...bind, listeners: keys, ...(streams !== undefined && { streams: streamKeys }) });
  }
  const backendKeys: PartKey[] = [];
  for (const backend of Object.values(backends)) {
    backendKeys.push(packer.backend(backend));
    yield;
  }
  return { frame: { generation, binds: frameBinds, backends: backendKeys }, parts: packer.parts };
}

/** Whether two snapshots are equal except for their generations. */
export function isSameFrame(a: SnapshotFrame, b: SnapshotFrame): boolean {
  return JSON.stringify([a.binds, a.backends]) === JSON.stringify([b.binds, b.backends]);
}

class Packer {
  readonly parts = new Map<PartKey, string>();
  /** The keys of parts by their original values, because translation uses the same lists in many places. */
  readonly #keys = new Map<object | string, PartKey>();
  /** The limits of a policy at a target, by the first of them. */
  readonly #limitsOf = new Map<LocalLimit, { readonly limits: readonly LocalLimit[]; readonly key: PartKey }>();

  #part(value: object | string): PartKey {
    const text = JSON.stringify(value);
    const key = hash("sha256", text, "base64");
    if (!this.parts.has(key)) this.parts.set(key, text);
    return key;
  }

  /** Returns the key of a value that occurs in many places. */
  #shared(value: object | string): PartKey {
    const key = this.#keys.get(value) ?? this.#part(value);
    this.#keys.set(value, key);
    return key;
  }

  /** Returns the key of a list of keys of texts, because a text may be in many lists. */
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

  streamListener({ routes, tls, ...listener }: StreamListener): PartKey {
    return this.#part({
      ...listener,
      ...(tls !== undefined && { tls: this.#listenerTls(tls) }),
      routes: routes.map(({ limits, ...route }) => ({ ...route, limits: this.#limits(limits) })),
    } satisfies PackedStreamListener);
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
    const existing = this.#keys.get(rules);
    if (existing !== undefined) return existing;
    const packed = rules.map(({ authentication, limits, globalLimits, ...rule }): PackedRule => {
      return {
        ...rule,
        ...(authentication !== undefined && {
          authentication: this.#once(authentication, () => authentication.map((each) => this.#authentication(each))),
        }),
        limits: this.#limits(limits),
        ...(globalLimits !== undefined && {
          globalLimits: this.#once(globalLimits, () => globalLimits.map((limit) => this.#globalLimit(limit))),
        }),
      };
    });
    const key = this.#part(packed);
    this.#keys.set(rules, key);
    return key;
  }

  #authentication(authentication: Authentication): PartKey {
    return this.#once(authentication, (): PackedAuthentication => {
      const { issuers, apiKeys, ...rest } = authentication;
      return {
        ...rest,
        issuers: this.#shared(issuers),
        ...(apiKeys !== undefined && { apiKeys: this.#shared(apiKeys) }),
      };
    });
  }

  #limits(limits: readonly LocalLimit[]): PartKey {
    return this.#once(limits, () => limitsByTarget(limits).map((group) => this.#limitsOfTarget(group)));
  }

  #limitsOfTarget(limits: readonly LocalLimit[]): PartKey {
    const [first] = limits;
    const existing = first && this.#limitsOf.get(first);
    if (existing?.limits.length === limits.length && existing.limits.every((limit, at) => limit === limits[at])) {
      return existing.key;
    }
    const counters: string[] = [];
    const entries: PackedEntry[] = [];
    let targetOfAll = "";
    for (const { target, counter, key, denied, ...entry } of limits) {
      targetOfAll = target;
      counters.push(counter);
      entries.push({
        ...entry,
        ...(key !== undefined && { key: this.#shared(key) }),
        ...(denied !== undefined && { denied: this.#shared(denied) }),
      });
    }
    const part: PackedLimits = { target: targetOfAll, counters, entries: this.#part(entries) };
    const packed = { limits, key: this.#part(part) };
    if (first !== undefined) this.#limitsOf.set(first, packed);
    return packed.key;
  }

  #globalLimit(limit: GlobalLimit): PartKey {
    return this.#once(limit, (): PackedGlobalLimit => {
      const { descriptors, fallback, denied, ...rest } = limit;
      return {
        ...rest,
        ...(denied !== undefined && { denied: this.#shared(denied) }),
        descriptors: this.#shared(descriptors),
        fallback: this.#limits(fallback),
      };
    });
  }

  /** Returns the key of a value, and packs it at the first call only. */
  #once(value: object, pack: () => object): PartKey {
    const key = this.#keys.get(value) ?? this.#part(pack());
    this.#keys.set(value, key);
    return key;
  }
}

/** Returns the limits in their order, with adjacent limits of one policy and target in one list. */
function limitsByTarget(limits: readonly LocalLimit[]): readonly (readonly LocalLimit[])[] {
  const groups: LocalLimit[][] = [];
  for (const limit of limits) {
    const [last] = groups.at(-1) ?? [];
    if (last?.policy === limit.policy && last.target === limit.target) groups.at(-1)?.push(limit);
    else groups.push([limit]);
  }
  return groups;
}

/** A list of parts with their keys. */
export type PartBatch = readonly (readonly [PartKey, string])[];

/** The length of a batch in characters, which takes a few milliseconds to parse. A longer part is a separate batch. */
const batchLength = 128 * 1024;

/** Yields the parts of a snapshot in batches, without those in `alreadySent`. */
export function* batchesOf({ parts }: PackedSnapshot, alreadySent: ReadonlySet<PartKey>): Generator<PartBatch> {
  let batch: (readonly [PartKey, string])[] = [];
  let length = 0;
  for (const part of parts) {
    if (alreadySent.has(part[0])) continue;
    batch.push(part);
    length += part[1].length;
    if (length < batchLength) continue;
    yield batch;
    batch = [];
    length = 0;
  }
  if (batch.length > 0) yield batch;
}

/**
 * The parts that a worker has. The main thread sends all additions and removals, so it knows the parts of the worker.
 */
export class ReceivedParts {
  readonly #values = new Map<PartKey, unknown>();
  /** Values assembled from several parts, by the key of the part that refers to the others. */
  readonly #assembled = new Map<PartKey, unknown>();

  add(batch: PartBatch): void {
    for (const [key, text] of batch) this.#values.set(key, JSON.parse(text));
  }

  remove(keys: readonly PartKey[]): void {
    for (const key of keys) {
      this.#values.delete(key);
      this.#assembled.delete(key);
    }
  }

  /** Assembles a snapshot, in steps of one route each. Throws if a part is missing. */
  *assemble({ generation, binds, backends: keys }: SnapshotFrame): Steps<Snapshot> {
    const assembled: Bind[] = [];
    for (const { listeners, streams, ...bind } of binds) {
      const ofBind: Listener[] = [];
      for (const key of listeners) ofBind.push(yield* this.#listener(key));
      const streamsOfBind = streams?.map((key) => this.#streamListener(key));
      yield;
      assembled.push({ ...bind, listeners: ofBind, ...(streamsOfBind !== undefined && { streams: streamsOfBind }) });
    }
    const backends = keys.map((key) => this.#backend(key));
    return {
      generation,
      binds: assembled,
      backends: Object.fromEntries(backends.map((backend) => [backend.key, backend])),
    };
  }

  /** Returns the value of a part. The member that contains its key determines its type (see `packSnapshot`). */
  #part(key: PartKey): unknown {
    const value = this.#values.get(key);
    if (value === undefined) throw new Error(`part ${key} of the snapshot is missing`);
    return value;
  }

  /**
   * Assembles a value from a part and the parts to which it refers. Returns the same object for the same part, so that
   * it is compiled once.
   */
  #assembledOf<Value>(key: PartKey, assemble: () => Value): Value {
    const existing = this.#assembled.get(key);
    // A part has one type only, so the type of its value is known.
    if (existing !== undefined) return existing as Value;
    const value = assemble();
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

  #streamListener(key: PartKey): StreamListener {
    return this.#assembledOf(key, () => {
      const { routes, tls, ...listener } = this.#part(key) as PackedStreamListener;
      return {
        ...listener,
        ...(tls !== undefined && { tls: this.#listenerTls(tls) }),
        routes: routes.map(({ limits, ...route }) => ({ ...route, limits: this.#limits(limits) })),
      };
    });
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
      (this.#part(key) as readonly PackedRule[]).map(({ authentication, limits, globalLimits, ...rule }): RouteRule => {
        return {
          ...rule,
          ...(authentication !== undefined && {
            authentication: this.#list(authentication, (each) => this.#authentication(each)),
          }),
          limits: this.#limits(limits),
          ...(globalLimits !== undefined && {
            globalLimits: this.#list(globalLimits, (limit) => this.#globalLimit(limit)),
          }),
        };
      }),
    );
  }

  #list<Value>(key: PartKey, valueOf: (key: PartKey) => Value): readonly Value[] {
    return this.#assembledOf(key, () => (this.#part(key) as readonly PartKey[]).map(valueOf));
  }

  #authentication(key: PartKey): Authentication {
    return this.#assembledOf(key, () => {
      const { issuers, apiKeys, ...rest } = this.#part(key) as PackedAuthentication;
      return {
        ...rest,
        issuers: this.#part(issuers) as readonly TokenIssuer[],
        ...(apiKeys !== undefined && { apiKeys: this.#part(apiKeys) as ApiKeys }),
      };
    });
  }

  #limits(key: PartKey): readonly LocalLimit[] {
    return this.#assembledOf(key, () =>
      (this.#part(key) as readonly PartKey[]).flatMap((limits) => this.#limitsOfTarget(limits)),
    );
  }

  #limitsOfTarget(key: PartKey): readonly LocalLimit[] {
    return this.#assembledOf(key, () => {
      const { target, counters, entries } = this.#part(key) as PackedLimits;
      return (this.#part(entries) as readonly PackedEntry[]).map(
        ({ key: expression, denied, ...entry }, at): LocalLimit => {
          const counter = counters[at] ?? "";
          return {
            counter,
            target,
            ...entry,
            ...(expression !== undefined && { key: this.#part(expression) as string }),
            ...(denied !== undefined && { denied: this.#part(denied) as DeniedResponse }),
          };
        },
      );
    });
  }

  #globalLimit(key: PartKey): GlobalLimit {
    return this.#assembledOf(key, () => {
      const { descriptors, fallback, denied, ...limit } = this.#part(key) as PackedGlobalLimit;
      return {
        ...limit,
        ...(denied !== undefined && { denied: this.#part(denied) as DeniedResponse }),
        descriptors: this.#part(descriptors) as GlobalLimit["descriptors"],
        fallback: this.#limits(fallback),
      };
    });
  }
}
