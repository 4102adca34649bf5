/**
 * Keeps all objects of one kind, or those that a selector names, up to date: lists them, then watches. The informer of
 * the client library is not used: it stops for good at any error but 410, ignores Retry-After, skips events that it
 * cannot parse, and restarts a watch after 30 s without data.
 *
 * Known objects stay while the API server is unavailable: a gateway that drops its routes is worse than one that sees
 * changes late. Events are those of the Kubernetes API concepts, "Efficient detection of changes".
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { Backoff } from "@gatewayproxy/runtime/backoff";
import { pause } from "@gatewayproxy/runtime/pause";
import { runInSlices, type Steps } from "@gatewayproxy/runtime/steps";
import { ApiFailure, failureOf, failureOfEvent } from "./api-failure.ts";
import { type ClusterConnection, parseJson, readText } from "./connection.ts";
import { readJsonLines } from "./json-lines.ts";
import type { WatchQuota, WatchQuotaMember } from "./watch-quota.ts";
import { fieldsOf, isObject, type KubeObject, keyOfObject, readList } from "./object.ts";

/** Options of `watchObjects`. */
export interface WatchOptions<T> {
  /** The API server. */
  readonly connection: ClusterConnection;
  /** Times pauses after failures and between polls. */
  readonly clock: Clock;
  /** From 0 to 1, for jitter. */
  readonly random: () => number;
  /** Receives failures and restarts of the watch. */
  readonly log: Logger;
  /** Path of the collection; several where the kind has several versions, the preferred one first. */
  readonly paths: readonly [string, ...string[]];
  /** Restricts the objects; absent: all objects of the collection. */
  readonly selector?: { readonly labelSelector?: string; readonly fieldSelector?: string };
  /** Bounds requests and watches together with others; without it a watch is always open. */
  readonly quota?: WatchQuota;
  /** Converts an object; `before` is the converted previous version. */
  readonly read: (object: KubeObject, before: T | undefined) => T;
  /** Called when the objects or the state may have changed. */
  readonly onChange: () => void;
}

/**
 * The state of a watch. Known objects stay in force in every state but `absent`.
 * - `starting`: nothing was listed yet.
 * - `synced`: the first list, and each later one, moves any state here. After it, failures change nothing, except that
 *   the kind is missing several times.
 * - `absent`: the API server does not know the kind: its CustomResourceDefinition is missing.
 * - `forbidden`: the API server responded with 401 or 403 while the state was not `synced`.
 */
export type WatchState =
  | { readonly kind: "starting" }
  | { readonly kind: "synced" }
  | { readonly kind: "absent" }
  /** `message` is that of the API server. */
  | { readonly kind: "forbidden"; readonly message: string };

/** A running watch. */
export interface ObjectWatch<T> {
  /** Objects by `namespace/name`, or by `name` for objects of the whole cluster. */
  readonly objects: ReadonlyMap<string, T>;
  readonly state: WatchState;
  /** Stops the watch; `onChange` is not called afterwards. */
  close(): void;
}

/** Starts to watch. Never fails, but retries. */
export function watchObjects<T>(options: WatchOptions<T>): ObjectWatch<T> {
  const reflector = new Reflector(options);
  void reflector.run();
  return reflector;
}

/** The retry interval for a missing kind, which takes an operator to install. */
const slowRetryMs = 10_000;

/** A kind that was served before counts as removed after so many 404s: a starting API server knows few kinds. */
const missingTimes = 3;

/** A watch that ends sooner counts as failed, so that it is not repeated at once. */
const shortWatchMs = 5_000;

/** The server ends a watch after a random time in this range, so that connections spread over its replicas again. */
const watchSeconds = { least: 240, spread: 120 };

/** Objects of one page, which is parsed in one event-loop turn; an HTTPRoute of maximum size has some 100 KB. */
const pageSize = "100";

class Reflector<T> implements ObjectWatch<T> {
  readonly #options: WatchOptions<T>;
  readonly #backoff: Backoff;
  readonly #ended = new AbortController();
  readonly #objects = new Map<string, { readonly version: string; readonly value: T }>();
  /** The same without versions, for callers. */
  readonly objects = new Map<string, T>();
  state: WatchState = { kind: "starting" };
  /** The resource version from which to watch; undefined where everything must be listed first. */
  #version: string | undefined;
  #path = 0;
  /** Whether an object was added or changed since the last list. */
  #hasNews = false;
  #timesMissing = 0;
  readonly #quota: WatchQuotaMember | undefined;

  constructor(options: WatchOptions<T>) {
    this.#options = options;
    this.#backoff = new Backoff({ random: options.random });
    this.#quota = options.quota?.join();
  }

  close(): void {
    this.#ended.abort();
    this.#quota?.leave();
  }

  async run(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      const waitMs = await this.#attempt();
      if (waitMs > 0) await pause(this.#options.clock, waitMs, signal);
    }
  }

  /** Lists where needed, and watches until the watch ends. Returns how long to wait before the next attempt, in ms. */
  async #attempt(): Promise<number> {
    const { clock, log } = this.#options;
    const path = this.#currentPath();
    try {
      if (this.#version === undefined) {
        await (this.#quota === undefined ? this.#list(path) : this.#quota.withRequest(() => this.#list(path)));
      }
      const startMs = clock.monotonicMs();
      if (this.#quota === undefined) await this.#watch(path);
      else if (!(await this.#quota.withWatch(() => this.#watch(path)))) return this.#pollAfter(this.#quota.pollMs);
      if (clock.monotonicMs() - startMs < shortWatchMs) return this.#backoff.next();
      this.#backoff.reset();
      return 0;
    } catch (error) {
      if (this.#ended.signal.aborted) return 0;
      const waitMs = this.#handleFailure(error);
      log.debug({ path, err: error, waitMs }, "watch failed; trying again");
      return waitMs;
    }
  }

  /** Schedules the next list, where all watches of the quota are in use. */
  #pollAfter(waitMs: number): number {
    this.#version = undefined;
    this.#backoff.reset();
    return waitMs * (0.75 + this.#options.random() / 4);
  }

  #currentPath(): string {
    const { paths } = this.#options;
    return paths[this.#path % paths.length] ?? paths[0];
  }

  /** Updates the state after a failure and returns how long to wait before the next attempt, in ms. */
  #handleFailure(error: unknown): number {
    if (!(error instanceof ApiFailure)) return this.#retryAfter(error, this.#backoff.next());
    switch (error.status) {
      case 410:
        // The version has expired: later events are not available any more.
        this.#version = undefined;
        return this.#backoff.next();
      case 404:
        return this.#missing();
      case 401:
      case 403:
        // Known objects stay in force.
        if (this.state.kind !== "synced") this.#enter({ kind: "forbidden", message: error.message });
        // The role may be created soon, so the first retries are early.
        return this.#retryAfter(error, this.#backoff.next());
      default:
        return this.#retryAfter(error, Math.max(error.retryAfterMs ?? 0, this.#backoff.next()));
    }
  }

  /** Logs the first of a series of failures, and returns `waitMs`. */
  #retryAfter(error: unknown, waitMs: number): number {
    if (this.#backoff.failures === 1) {
      this.#options.log.warn({ path: this.#currentPath(), err: error }, "cannot watch; trying again");
    }
    return waitMs;
  }

  #missing(): number {
    this.#version = undefined;
    this.#path++;
    // The API server may serve another version of the kind.
    if (this.#path % this.#options.paths.length !== 0) return 0;
    this.#timesMissing++;
    if (this.state.kind !== "synced" || this.#timesMissing >= missingTimes) {
      this.#objects.clear();
      this.objects.clear();
      this.#enter({ kind: "absent" });
    }
    return slowRetryMs * (0.5 + this.#options.random() / 2);
  }

  #enter(state: WatchState): void {
    if (this.state.kind !== state.kind) {
      this.#options.log.debug(
        { path: this.#currentPath(), before: this.state.kind, state: state.kind },
        "watch changed",
      );
    }
    this.state = state;
    if (!this.#ended.signal.aborted) this.#options.onChange();
  }

  async #list(path: string): Promise<void> {
    const { connection, selector } = this.#options;
    const listed = new Set<string>();
    let next: string | undefined;
    let version = "";
    do {
      const response = await connection.requestJson({
        path,
        query: { ...selector, limit: pageSize, continue: next },
        signal: this.#ended.signal,
      });
      if (response.status !== 200) throw failureOf(response.status, response.headers, response.json);
      const page = readList(response.json);
      // To parse an object takes up to some milliseconds, and a page has a hundred.
      for (const key of await runInSlices(this.#putAll(page.items))) listed.add(key);
      if (this.#ended.signal.aborted) return;
      version = page.version;
      next = page.next;
    } while (next !== undefined);
    const gone = [...this.objects.keys()].filter((key) => !listed.has(key));
    for (const key of gone) this.#remove(key);
    this.#version = version;
    this.#timesMissing = 0;
    this.#options.log.debug({ path, objects: listed.size, gone: gone.length, version }, "listed");
    const isNews = this.state.kind !== "synced" || this.#hasNews || gone.length > 0;
    this.#hasNews = false;
    if (isNews) this.#enter({ kind: "synced" });
  }

  async #watch(path: string): Promise<void> {
    const { connection, selector, random } = this.#options;
    const seconds = Math.round(watchSeconds.least + random() * watchSeconds.spread);
    const asked = connection.request({
      path,
      query: {
        ...selector,
        watch: "1",
        resourceVersion: this.#version,
        allowWatchBookmarks: "true",
        timeoutSeconds: String(seconds),
      },
      signal: this.#ended.signal,
      silenceMs: (seconds + 30) * 1_000,
    });
    const { status, headers, body } = await asked.catch((error: unknown) => {
      this.#forgetVersions();
      throw error;
    });
    if (status !== 200) throw failureOf(status, headers, parseJson(await readText(body)));
    this.#options.log.debug({ path, version: this.#version, seconds }, "watch started");
    for await (const event of readJsonLines(body)) this.#take(event);
    this.#options.log.debug({ path, version: this.#version }, "watch ended; a new one starts");
  }

  /**
   * Has everything listed and parsed again. An API server that was unreachable may come back with an older state,
   * restored from a backup. It would send no events for a watch from a version that it has not reached yet, and may
   * assign known versions to other contents.
   */
  #forgetVersions(): void {
    this.#version = undefined;
    for (const [key, { value }] of this.#objects) this.#objects.set(key, { version: "", value });
  }

  #take(event: unknown): void {
    if (!isObject(event) || !isObject(event["object"])) throw new Error("an event of the watch has no object");
    const { type, object } = event;
    if (type === "ERROR") throw failureOfEvent(object);
    // The server has sent an event, so the connection works.
    this.#backoff.reset();
    const version = versionOf(object);
    if (version !== undefined) this.#version = version;
    const { log } = this.#options;
    if (log.isLevelEnabled("trace")) {
      log.trace({ path: this.#currentPath(), event: type, object: keyOfObject(object), version }, "watch event");
    }
    if (type === "BOOKMARK") return;
    if (type === "DELETED") this.#remove(keyOfObject(object));
    else this.#put(object);
    if (!this.#ended.signal.aborted) this.#options.onChange();
  }

  *#putAll(objects: readonly KubeObject[]): Steps<readonly string[]> {
    const keys: string[] = [];
    for (const object of objects) {
      keys.push(this.#put(object));
      yield;
    }
    return keys;
  }

  #put(object: KubeObject): string {
    const key = keyOfObject(object);
    const version = versionOf(object) ?? "";
    const before = this.#objects.get(key);
    // A list repeats known objects.
    if (before !== undefined && before.version === version && version !== "") return key;
    const value = this.#options.read(object, before?.value);
    this.#objects.set(key, { version, value });
    this.objects.set(key, value);
    this.#hasNews = true;
    return key;
  }

  #remove(key: string): void {
    this.#objects.delete(key);
    this.objects.delete(key);
  }
}

function versionOf({ metadata }: KubeObject): string | undefined {
  const version = fieldsOf(metadata)["resourceVersion"];
  return typeof version === "string" ? version : undefined;
}
