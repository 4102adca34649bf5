/**
 * The invariants of a snapshot that its types do not express. A worker relies on them when it compiles a snapshot,
 * where an error would affect every listener of a port. `translate` keeps them; a violation is an error of this
 * project, not of a user.
 */
import { memoised, memoisedInSteps } from "@gatewayproxy/runtime/memoised";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Filter } from "./filter.ts";
import type { GlobalLimit } from "./global-limit.ts";
import type { LocalLimit } from "./limit.ts";
import { pagesOfRoutes } from "./route-pages.ts";
import { backendsByKey } from "./backends-by-key.ts";
import type {
  Backend,
  BackendKey,
  BackendRef,
  Bind,
  Listener,
  ListenerTls,
  ProviderRef,
  Route,
  RouteRule,
  Snapshot,
  StreamListener,
} from "./snapshot.ts";

/** A violated invariant, with its place. */
export class SnapshotError extends Error {
  override readonly name = "SnapshotError";
}

/** A backend has up to a thousand endpoints, each of which takes well below a microsecond. */
const backendsPerStep = 16;

/** Objects without a violation. An unchanged object is the same one in the next snapshot. */
const soundBackends = new WeakSet<Backend>();
const soundLimits = new WeakSet<LocalLimit | GlobalLimit>();
const soundRouteLists = new WeakSet<readonly Route[]>();
/** The last of these lists that began with a route. */
const lastRouteLists = new WeakMap<Route, readonly Route[]>();
/** Rules without another violation, with the keys of all backends to which they refer. */
const soundRules = new WeakMap<Route["rules"], readonly BackendKey[]>();
/** By the keys of all backends of a snapshot, pages of routes without a violation. */
const soundPages = memoised((_backends: ReadonlySet<string>) => new WeakSet<readonly Route[]>());

/**
 * Asserts the invariants. A step for each listener, and for some backends.
 *
 * @throws `SnapshotError` for the first violation.
 */
export function* assertSnapshot({ binds, backends }: Pick<Snapshot, "binds" | "backends">): Steps<void> {
  const keys = yield* soundKeys(backends);
  const sockets = new Set<string>();
  for (const bind of binds) {
    const socket = `${bind.address ?? "*"}:${bind.port}${bind.transport === undefined ? "" : " over UDP"}`;
    assert(!sockets.has(socket), socket, "occurs in two binds");
    sockets.add(socket);
    yield* assertBind(bind, socket, keys);
  }
}

/** Returns the keys of backends, after it has asserted that they are sound. */
const soundKeys = memoisedInSteps(function* (backends: Snapshot["backends"]): Steps<ReadonlySet<string>> {
  const keys = keysOf(backends);
  for (const [at, backend] of backends.entries()) {
    const before = backends[at - 1];
    assert(
      before === undefined || before.key < backend.key,
      backend.key,
      `does not follow backend ${before?.key} in the order of keys`,
    );
    assertBackend(backend);
    assertProviders(backend.key, backend.failover?.providers, backends);
    if (at % backendsPerStep === 0) yield;
  }
  return keys;
});

/** Most changes are of endpoints, and keep the keys. */
let lastKeys: ReadonlySet<string> = new Set();

/** Returns the last set if it has the same keys. */
function keysOf(backends: Snapshot["backends"]): ReadonlySet<string> {
  const isSame = backends.length === lastKeys.size && backends.every(({ key }) => lastKeys.has(key));
  if (!isSame) lastKeys = new Set(backends.map(({ key }) => key));
  return lastKeys;
}

function* assertBind(
  { port, transport, listeners, streams = [] }: Bind,
  socket: string,
  backends: ReadonlySet<string>,
): Steps<void> {
  const all = [...listeners, ...streams];
  assert(isPort(port), socket, "has a port that is not in 1..65535");
  assert(all.length > 0, socket, "has no listener");
  assert(new Set(all.map(({ key }) => key)).size === all.length, socket, "has a listener twice");
  assert(new Set(all.map(({ hostname }) => hostname)).size === all.length, socket, "has a host name twice");
  const protocols = new Set(all.map(({ protocol }) => (protocol === "HTTPS" ? "TLS" : protocol)));
  assert(protocols.size === 1, socket, "has listeners with TLS and without, or of several protocols");
  assert(protocols.has("UDP") === (transport === "UDP"), socket, "has a listener of another transport");
  for (const listener of streams) {
    assertStreamListener(listener, backends);
    yield;
  }
  const sound = soundPages(backends);
  for (const listener of listeners) {
    assertListener(listener);
    for (const page of pagesOfRoutes(listener.routes)) {
      if (sound.has(page)) continue;
      for (const { key, rules } of page) {
        const uses = soundRules.get(rules);
        if (uses?.every((backend) => backends.has(backend)) !== true) assertRules(key, rules, backends);
      }
      sound.add(page);
    }
    yield;
  }
}

function assertRules(key: string, rules: Route["rules"], backends: ReadonlySet<string>): void {
  const isUnique = rules.length < 2 || new Set(rules.map((rule) => rule.key)).size === rules.length;
  assert(isUnique, key, "has two rules with one key");
  for (const rule of rules) assertRule(rule, backends);
  soundRules.set(rules, [...new Set(rules.flatMap(usesOf))]);
}

/** Returns the keys of the backends to which a rule refers. */
function usesOf({ filters, backendRefs }: RouteRule): readonly BackendKey[] {
  const refs = backendRefs.flatMap((ref) => (ref.kind === "invalid" ? [] : [ref]));
  const mirrors = [...filters, ...refs.flatMap((ref) => ref.filters)].flatMap((filter) =>
    filter.kind === "RequestMirror" ? [filter.backend] : [],
  );
  return [...refs.map((ref) => ref.backend), ...mirrors];
}

function assertStreamListener(listener: StreamListener, backends: ReadonlySet<string>): void {
  const { key, protocol, tls, hostname, routes } = listener;
  assert(
    protocol === "TLS" || (tls === undefined && hostname === undefined),
    key,
    `has settings of TLS and protocol ${protocol}`,
  );
  assertTls(key, tls);
  assert(hostname === undefined || hostname === hostname.toLowerCase(), key, "has a host name in upper case");
  assert(new Set(routes.map((route) => route.key)).size === routes.length, key, "has a route twice");
  for (const route of routes) {
    for (const ref of route.backendRefs) assertRef(ref, route.key, backends);
    for (const limit of route.limits) {
      assert(limit.counts === "connections", route.key, `has limit ${limit.counter} of ${limit.counts}`);
      assertOnce(limit, () => assertLocal(limit, route.key));
    }
  }
}

function assertTls(key: string, tls: ListenerTls | undefined): void {
  assert(tls === undefined || tls.certificates.length > 0, key, "has TLS without a certificate");
  const authorities = tls?.clientValidation?.authorities;
  assert(authorities === undefined || authorities.length > 0, key, "validates clients without an authority");
}

function assertListener({ key, protocol, tls, hostname, routes }: Listener): void {
  assert((protocol === "HTTPS") === (tls !== undefined), key, `has protocol ${protocol} and other TLS settings`);
  assertTls(key, tls);
  assert(hostname === undefined || hostname === hostname.toLowerCase(), key, "has a host name in upper case");
  const [first] = routes;
  if (first === undefined || soundRouteLists.has(routes)) return;
  const last = lastRouteLists.get(first);
  // Most changes edit routes, and keep the keys.
  const hasSameKeys = last?.length === routes.length && routes.every((route, at) => route.key === last[at]?.key);
  const isUnique = hasSameKeys || new Set(routes.map((route) => route.key)).size === routes.length;
  assert(isUnique, key, "has a route twice");
  soundRouteLists.add(routes);
  lastRouteLists.set(first, routes);
}

function assertRule(rule: RouteRule, backends: ReadonlySet<string>): void {
  const { key, filters, backendRefs, limits, globalLimits = [] } = rule;
  // A rule loses the matches that exceed a bound, and responds with 500 to the others.
  assert(rule.matches.length > 0 || backendRefs.length === 0, key, "has backends and no match");
  assertMirrors(filters, key, backends);
  for (const ref of backendRefs) {
    assertRef(ref, key, backends);
    if (ref.kind === "invalid") continue;
    assertMirrors(ref.filters, key, backends);
  }
  for (const limit of limits) assertOnce(limit, () => assertLocal(limit, key));
  for (const limit of globalLimits) assertOnce(limit, () => assertGlobal(limit, key));
}

function assertRef(ref: BackendRef, key: string, backends: ReadonlySet<string>): void {
  assert(Number.isSafeInteger(ref.weight) && ref.weight >= 0, key, "has a weight that is not a whole number");
  if (ref.kind === "invalid") return;
  assert(backends.has(ref.backend), key, `refers to backend ${ref.backend}, which is not in the snapshot`);
}

function assertOnce(limit: LocalLimit | GlobalLimit, assertLimit: () => void): void {
  if (soundLimits.has(limit)) return;
  assertLimit();
  soundLimits.add(limit);
}

function assertMirrors(filters: readonly Filter[], key: string, backends: ReadonlySet<string>): void {
  for (const filter of filters) {
    if (filter.kind !== "RequestMirror") continue;
    assert(backends.has(filter.backend), key, `mirrors to ${filter.backend}, which is not in the snapshot`);
  }
}

function assertLocal({ counter, amount, burst, counts, unit, unitCount = 1, window }: LocalLimit, key: string): void {
  assert(Number.isSafeInteger(amount) && amount >= 1, key, `has limit ${counter} with amount ${amount}`);
  assert(Number.isSafeInteger(burst) && burst >= 0, key, `has limit ${counter} with burst ${burst}`);
  assert(counts === "requests" || burst === 0, key, `has limit ${counter} of ${counts} with a burst`);
  assert(
    (counts === "concurrent" || counts === "connections") === (unit === undefined),
    key,
    `has limit ${counter} of ${counts} in ${unit ?? "no unit"}`,
  );
  assert(unit !== "Months" || window?.kind === "Calendar", key, `has limit ${counter} of months without a calendar`);
  assert(unitCount >= 1, key, `has limit ${counter} with a window of ${unitCount} units`);
}

function assertGlobal({ id, timeoutMs, descriptors, fallback }: GlobalLimit, key: string): void {
  assert(timeoutMs >= 1, key, `has global limit ${id} with a timeout of ${timeoutMs} ms`);
  assert(descriptors.length > 0, key, `has global limit ${id} without a descriptor`);
  for (const { index, entries } of descriptors) {
    assert(entries.length > 0, key, `has global limit ${id} with descriptor ${index} without an entry`);
  }
  for (const limit of fallback) assertLocal(limit, key);
}

function assertBackend(backend: Backend): void {
  const { key } = backend;
  if (soundBackends.has(backend)) return;
  for (const { host, port } of backend.endpoints) {
    assert(host !== "" && isPort(port), key, `has endpoint ${host}:${port}`);
  }
  const authorities = backend.tls?.authorities;
  assert(authorities === undefined || authorities.length > 0, key, "validates servers without an authority");
  soundBackends.add(backend);
}

function assertProviders(
  key: string,
  providers: readonly ProviderRef[] | undefined,
  backends: Snapshot["backends"],
): void {
  if (providers === undefined) return;
  assert(providers.length > 0, key, "has a list of providers that is empty");
  for (const { backend, weight } of providers) {
    assert(
      backendsByKey(backends).get(backend)?.ai !== undefined,
      key,
      `has provider ${backend}, which is no LLM provider of the snapshot`,
    );
    assert(Number.isSafeInteger(weight) && weight >= 1, key, `has provider ${backend} with weight ${weight}`);
  }
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= 65_535;
}

/** @param violation follows the place in a sentence. */
function assert(holds: boolean, place: string, violation: string): void {
  if (!holds) throw new SnapshotError(`snapshot: ${place} ${violation}`);
}
