/**
 * Converts a snapshot to a frame and parts, to send it to the workers. A part is the JSON text of a value that occurs
 * in many places (the rules of a route, limits of a policy, a listener, a backend, a certificate, the PEM text of
 * authorities), identified by its hash. The parts are short enough not to block the event loop, and a part that a
 * worker has is not sent again. In the worker, equal values are one object, so that the compiled form of a value can be
 * looked up by identity.
 */
import { hash } from "node:crypto";
import type { Steps } from "@gatewayproxy/runtime/steps";
import { joined, pagesBy } from "@gatewayproxy/runtime/lists";
import { memoised, sameList } from "@gatewayproxy/runtime/memoised";
import type { ApiKeys, Authentication, TokenIssuer } from "../ir/authentication.ts";
import type { GlobalLimit } from "../ir/global-limit.ts";
import type { LocalLimit } from "../ir/limit.ts";
import { pagesOfRoutes } from "../ir/route-pages.ts";
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
  /** Pages, each a list of the keys of backends. */
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
  /** All parts to which the frame or another part refers. */
  readonly groups: readonly PartGroup[];
}

/** A list of parts with their keys. */
export type PartBatch = readonly (readonly [PartKey, string])[];

/**
 * A page or another part of the frame, after all parts to which it refers. It is the same list in the next snapshot if
 * nothing in it has changed. Several groups can have a part.
 */
export type PartGroup = PartBatch;

/** `routes` are the keys of pages, each a list of `PackedRoute`. */
interface PackedListener extends Omit<Listener, "routes" | "tls"> {
  readonly routes: readonly PartKey[];
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

/** Packs a snapshot, in steps of one page each. What has not changed since the last snapshot is not packed again. */
export function* packSnapshot({ generation, binds, backends }: Snapshot): Steps<PackedSnapshot> {
  const groups: PartGroup[] = [];
  const add = (part: Part): PartKey => {
    groups.push(groupOf(part));
    return part.key;
  };
  const frameBinds: FrameBind[] = [];
  for (const { listeners, streams, ...bind } of binds) {
    const keys: PartKey[] = [];
    for (const listener of listeners) {
      const part = yield* listenerPart(listener);
      for (const use of part.uses) add(use);
      groups.push([[part.key, part.text]]);
      keys.push(part.key);
    }
    const streamKeys: PartKey[] = [];
    for (const listener of streams ?? []) {
      streamKeys.push(add(streamListenerPart(listener)));
      yield;
    }
    frameBinds.push({ ...bind, listeners: keys, ...(streams !== undefined && { streams: streamKeys }) });
  }
  const backendKeys: PartKey[] = [];
  for (const page of pagesOfBackends(backends)) {
    backendKeys.push(add(backendsPart(page)));
    yield;
  }
  return { frame: { generation, binds: frameBinds, backends: backendKeys }, groups };
}

/** Whether two snapshots are equal except for their generations. */
export function isSameFrame(a: SnapshotFrame, b: SnapshotFrame): boolean {
  return JSON.stringify([a.binds, a.backends]) === JSON.stringify([b.binds, b.backends]);
}

/** A part, and those to which it refers. */
interface Part {
  readonly key: PartKey;
  readonly text: string;
  readonly uses: readonly Part[];
}

/** Returns the group of a part. */
const groupOf = memoised((part: Part): PartGroup => {
  const parts = new Map<PartKey, string>();
  const add = ({ key, text, uses }: Part): void => {
    if (parts.has(key)) return;
    for (const use of uses) add(use);
    parts.set(key, text);
  };
  add(part);
  return [...parts];
});

function partOf(value: object | string, uses: readonly Part[] = []): Part {
  const text = JSON.stringify(value);
  return { key: hash("sha256", text, "base64"), text, uses };
}

function keysOf(parts: readonly Part[]): readonly PartKey[] {
  return parts.map(({ key }) => key);
}

/** Returns the part of a list of the keys of parts. */
function listPart(parts: readonly Part[]): Part {
  return partOf(keysOf(parts), parts);
}

/** The parts of values without parts of their own. Translation uses the same object in many places. */
const plainPart = memoised((value: object) => partOf(value));
/** The parts of texts, which may be in many lists. */
const textsPart = memoised((texts: readonly string[]) => listPart(texts.map(textPart)));

/**
 * The parts of texts for as long as something refers to them. Thousands of policies may each have a list of the same
 * text.
 */
const textParts = new Map<string, WeakRef<Part>>();
const collectedTexts = new FinalizationRegistry<string>((text) => {
  if (textParts.get(text)?.deref() === undefined) textParts.delete(text);
});

function textPart(text: string): Part {
  const known = textParts.get(text)?.deref();
  if (known !== undefined) return known;
  const part = partOf(text);
  textParts.set(text, new WeakRef(part));
  collectedTexts.register(part, text);
  return part;
}

const pagesOfBackends = pagesBy<Backend>(({ key }) => key);

const backendPart = memoised(({ tls, ...backend }: Backend): Part => {
  if (tls === undefined) return partOf(backend satisfies PackedBackend);
  const { authorities, clientCertificate, ...rest } = tls;
  const texts = authorities && textsPart(authorities);
  const certificate = clientCertificate && plainPart(clientCertificate);
  const packed: PackedBackend = {
    ...backend,
    tls: {
      ...rest,
      ...(texts !== undefined && { authorities: texts.key }),
      ...(certificate !== undefined && { clientCertificate: certificate.key }),
    },
  };
  return partOf(
    packed,
    [texts, certificate].filter((part) => part !== undefined),
  );
});

const backendsPart = memoised((page: readonly Backend[]) => listPart(page.map(backendPart)));

function* listenerPart({ routes, tls, ...listener }: Listener): Steps<Part> {
  const pages: Part[] = [];
  for (const page of pagesOfRoutes(routes)) {
    pages.push(routesPart(page));
    yield;
  }
  const packedTls = tls && packTls(tls);
  const packed: PackedListener = {
    ...listener,
    ...(packedTls !== undefined && { tls: packedTls.packed }),
    routes: keysOf(pages),
  };
  return partOf(packed, [...pages, ...(packedTls?.uses ?? [])]);
}

const routesPart = memoised((page: readonly Route[]): Part => {
  const rules = page.map((route) => rulesPart(route.rules));
  const packed = page.map((route, at): PackedRoute => ({ ...route, rules: rules[at]?.key ?? "" }));
  return partOf(packed, rules);
});

const streamListenerPart = memoised(({ routes, tls, ...listener }: StreamListener): Part => {
  const limits = routes.map((route) => limitsPart(route.limits));
  const packedTls = tls && packTls(tls);
  const packed: PackedStreamListener = {
    ...listener,
    ...(packedTls !== undefined && { tls: packedTls.packed }),
    routes: routes.map((route, at) => ({ ...route, limits: limits[at]?.key ?? "" })),
  };
  return partOf(packed, [...limits, ...(packedTls?.uses ?? [])]);
});

const packTls = memoised(
  ({
    certificates,
    clientValidation,
    ...tls
  }: ListenerTls): { readonly packed: PackedListenerTls; readonly uses: readonly Part[] } => {
    const ofCertificates = certificates.map(plainPart);
    const authorities = clientValidation && textsPart(clientValidation.authorities);
    const packed: PackedListenerTls = {
      ...tls,
      certificates: keysOf(ofCertificates),
      ...(clientValidation !== undefined &&
        authorities !== undefined && { clientValidation: { ...clientValidation, authorities: authorities.key } }),
    };
    return { packed, uses: [...ofCertificates, ...(authorities === undefined ? [] : [authorities])] };
  },
);

const rulesPart = memoised((rules: Route["rules"]): Part => {
  const uses: Part[] = [];
  const use = (part: Part): PartKey => {
    uses.push(part);
    return part.key;
  };
  const packed = rules.map(({ authentication, limits, globalLimits, ...rule }): PackedRule => {
    return {
      ...rule,
      ...(authentication !== undefined && { authentication: use(authenticationsPart(authentication)) }),
      limits: use(limitsPart(limits)),
      ...(globalLimits !== undefined && { globalLimits: use(globalLimitsPart(globalLimits)) }),
    };
  });
  return partOf(packed, uses);
});

const authenticationsPart = memoised((all: readonly Authentication[]) => listPart(all.map(authenticationPart)));

const authenticationPart = memoised(({ issuers, apiKeys, ...rest }: Authentication): Part => {
  const ofIssuers = plainPart(issuers);
  const ofKeys = apiKeys && plainPart(apiKeys);
  const packed: PackedAuthentication = {
    ...rest,
    issuers: ofIssuers.key,
    ...(ofKeys !== undefined && { apiKeys: ofKeys.key }),
  };
  return partOf(packed, [ofIssuers, ...(ofKeys === undefined ? [] : [ofKeys])]);
});

/** Most lists are of no limits, and a list for each rule. */
const limitsPart = memoised((limits: readonly LocalLimit[]) =>
  listPart(limitsByTarget(limits).map((group) => limitsOfTargetPart(sameList(group)))),
);

const limitsOfTargetPart = memoised((limits: readonly LocalLimit[]): Part => {
  const uses: Part[] = [];
  const use = (part: Part): PartKey => {
    uses.push(part);
    return part.key;
  };
  let targetOfAll = "";
  const counters: string[] = [];
  const entries: PackedEntry[] = [];
  for (const { target, counter, key, denied, ...entry } of limits) {
    targetOfAll = target;
    counters.push(counter);
    entries.push({
      ...entry,
      ...(key !== undefined && { key: use(textPart(key)) }),
      ...(denied !== undefined && { denied: use(plainPart(denied)) }),
    });
  }
  const packed: PackedLimits = { target: targetOfAll, counters, entries: use(partOf(entries, [...uses])) };
  return partOf(packed, uses);
});

const globalLimitsPart = memoised((limits: readonly GlobalLimit[]) => listPart(limits.map(globalLimitPart)));

const globalLimitPart = memoised(({ descriptors, fallback, denied, ...rest }: GlobalLimit): Part => {
  const ofDescriptors = plainPart(descriptors);
  const ofFallback = limitsPart(fallback);
  const ofDenied = denied && plainPart(denied);
  const packed: PackedGlobalLimit = {
    ...rest,
    ...(ofDenied !== undefined && { denied: ofDenied.key }),
    descriptors: ofDescriptors.key,
    fallback: ofFallback.key,
  };
  return partOf(packed, [ofDescriptors, ofFallback, ...(ofDenied === undefined ? [] : [ofDenied])]);
});

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
    const backends = joined(keys.map((key) => this.#list(key, (backend) => this.#backend(backend))));
    return { generation, binds: assembled, backends };
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
    const pages: (readonly Route[])[] = [];
    for (const page of packed) {
      pages.push(this.#routes(page));
      yield;
    }
    const routes = joined(pages);
    if (tls === undefined) return { ...listener, routes };
    return { ...listener, tls: this.#assembledOf(key, () => this.#listenerTls(tls)), routes };
  }

  #routes(key: PartKey): readonly Route[] {
    return this.#assembledOf(key, () =>
      (this.#part(key) as readonly PackedRoute[]).map(({ rules, ...route }): Route => {
        return { ...route, rules: this.#rules(rules) };
      }),
    );
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
