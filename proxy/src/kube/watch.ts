/**
 * All objects of one kind, or those that a selector names, kept up to date: lists them, then watches from there. Ours,
 * and not the client library's informer, since that one stops for good at any error but 410, does not heed Retry-After,
 * skips events that it cannot parse, and starts a watch anew after 30 s of quiet.
 *
 * What is known stays known while the API server is away: a gateway that forgets its routes is worse than one that
 * learns of changes late. Events are the API server's (Kubernetes API concepts, "Efficient detection of changes").
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { Backoff, pause } from "@gatewayproxy/runtime/retry";
import { inTurns, type Steps } from "@gatewayproxy/runtime/steps";
import { ApiFailure, failureOf, failureOfEvent } from "./api-failure.ts";
import { type ClusterConnection, parseJson, readText } from "./connection.ts";
import { readJsonLines } from "./json-lines.ts";
import type { Lane, LaneMember } from "./lane.ts";
import { fieldsOf, isObject, type KubeObject, objectKey, readList } from "./object.ts";

export interface WatchOptions<T> {
  readonly connection: ClusterConnection;
  readonly clock: Clock;
  /** From 0 to 1, for jitter. */
  readonly random: () => number;
  readonly log: Logger;
  /** Path of the collection; several where the kind has several versions, the preferred one first. */
  readonly paths: readonly [string, ...string[]];
  readonly selector?: { readonly labelSelector?: string; readonly fieldSelector?: string };
  /** Bounds requests and watches together with others; without it a watch is held at all times. */
  readonly lane?: Lane;
  /** What to keep of an object; `before` is what was kept of its last version. */
  readonly read: (object: KubeObject, before: T | undefined) => T;
  /** The objects or the state may have changed. */
  readonly onChange: () => void;
}

export type WatchState =
  /** Not listed yet. */
  | { readonly kind: "starting" }
  | { readonly kind: "synced" }
  /** The API server does not know the kind: its CustomResourceDefinition is missing. */
  | { readonly kind: "absent" }
  /** We may not list or watch it. */
  | { readonly kind: "forbidden"; readonly message: string };

export interface ObjectWatch<T> {
  /** By `namespace/name`, or `name` for objects of the whole cluster. */
  readonly objects: ReadonlyMap<string, T>;
  readonly state: WatchState;
  /** Nothing is called afterwards. */
  close(): void;
}

/** Begins to watch; never fails, but tries again. */
export function watchObjects<T>(options: WatchOptions<T>): ObjectWatch<T> {
  const reflector = new Reflector(options);
  void reflector.run();
  return reflector;
}

/** Of what is not there: it takes an operator to change that. */
const slowRetryMs = 10_000;

/** A kind that was there is believed gone when it has been missing so often: at its start an API server knows few. */
const missingTimes = 3;

/** A watch that ends sooner has failed, whatever the server says, and must not be repeated at once. */
const shortWatchMs = 5_000;

/** The server ends a watch after this time; connections then spread over its replicas anew. */
const watchSeconds = { least: 240, spread: 120 };

/** Objects of one answer, which is parsed in one turn; an HTTPRoute with all that it may have is some 100 KB. */
const pageSize = "100";

class Reflector<T> implements ObjectWatch<T> {
  readonly #options: WatchOptions<T>;
  readonly #backoff: Backoff;
  readonly #ended = new AbortController();
  readonly #objects = new Map<string, { readonly version: string; readonly value: T }>();
  /** The same without versions. */
  readonly objects = new Map<string, T>();
  state: WatchState = { kind: "starting" };
  /** Where to watch from; undefined where everything has to be listed first. */
  #version: string | undefined;
  #path = 0;
  /** Whether an object has come or changed since the last list. */
  #hasNews = false;
  #timesMissing = 0;
  readonly #lane: LaneMember | undefined;

  constructor(options: WatchOptions<T>) {
    this.#options = options;
    this.#backoff = new Backoff(options.random);
    this.#lane = options.lane?.join();
  }

  close(): void {
    this.#ended.abort();
    this.#lane?.leave();
  }

  async run(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      const waitMs = await this.#attempt();
      if (waitMs > 0) await pause(this.#options.clock, waitMs, signal);
    }
  }

  /** Lists where needed and watches until the watch ends; gives how long to wait then. */
  async #attempt(): Promise<number> {
    const { clock, log } = this.#options;
    const path = this.#currentPath();
    try {
      if (this.#version === undefined) {
        await (this.#lane === undefined ? this.#list(path) : this.#lane.turn(() => this.#list(path)));
      }
      const startMs = clock.monotonicMs();
      if (this.#lane === undefined) await this.#watch(path);
      else if (!(await this.#lane.watching(() => this.#watch(path)))) return this.#pollAfter(this.#lane.pollMs);
      if (clock.monotonicMs() - startMs < shortWatchMs) return this.#backoff.next();
      this.#backoff.reset();
      return 0;
    } catch (error) {
      if (this.#ended.signal.aborted) return 0;
      const waitMs = this.#judge(error);
      log.debug({ path, err: error, waitMs }, "watch failed; it is tried again");
      return waitMs;
    }
  }

  /** Has everything listed anew after a time, as others hold all watches. */
  #pollAfter(waitMs: number): number {
    this.#version = undefined;
    this.#backoff.reset();
    return waitMs * (0.75 + this.#options.random() / 4);
  }

  #currentPath(): string {
    const { paths } = this.#options;
    return paths[this.#path % paths.length] ?? paths[0];
  }

  /** Decides what a failure means for what is known, and when to try again. */
  #judge(error: unknown): number {
    if (!(error instanceof ApiFailure)) return this.#told(error, this.#backoff.next());
    switch (error.status) {
      case 410:
        // Expired: what happened since is not told any more.
        this.#version = undefined;
        return this.#backoff.next();
      case 404:
        return this.#missing();
      case 401:
      case 403:
        // What is known stays in force.
        if (this.state.kind !== "synced") this.#enter({ kind: "forbidden", message: error.message });
        // A role may be about to be written: soon at first.
        return this.#told(error, this.#backoff.next());
      default:
        return this.#told(error, Math.max(error.retryAfterMs ?? 0, this.#backoff.next()));
    }
  }

  /** Once for a row of failures. */
  #told(error: unknown, waitMs: number): number {
    if (this.#backoff.failures === 1) {
      this.#options.log.warn({ path: this.#currentPath(), err: error }, "cannot watch; it is tried again");
    }
    return waitMs;
  }

  #missing(): number {
    this.#version = undefined;
    this.#path++;
    // Another version of the kind may be served.
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
      const answer = await connection.requestJson({
        path,
        query: { ...selector, limit: pageSize, continue: next },
        signal: this.#ended.signal,
      });
      if (answer.status !== 200) throw failureOf(answer.status, answer.headers, answer.json);
      const page = readList(answer.json);
      // To read an object takes up to some milliseconds, and a page has hundreds.
      for (const key of await inTurns(this.#putAll(page.items))) listed.add(key);
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
    this.#options.log.debug({ path, version: this.#version, seconds }, "watch began");
    for await (const event of readJsonLines(body)) this.#take(event);
    this.#options.log.debug({ path, version: this.#version }, "watch ended; it begins anew");
  }

  /**
   * Has everything listed and read again. An API server that could not be reached may come back with an older state,
   * restored from a backup: it would tell nothing of a watch from a version that it has not reached yet, and may give
   * versions that are known to other contents.
   */
  #forgetVersions(): void {
    this.#version = undefined;
    for (const [key, { value }] of this.#objects) this.#objects.set(key, { version: "", value });
  }

  #take(event: unknown): void {
    if (!isObject(event) || !isObject(event["object"])) throw new Error("an event of a watch has no object");
    const { type, object } = event;
    if (type === "ERROR") throw failureOfEvent(object);
    // The server has answered with something: the way there and back is sound.
    this.#backoff.reset();
    const version = versionOf(object);
    if (version !== undefined) this.#version = version;
    const { log } = this.#options;
    if (log.isLevelEnabled("trace")) {
      log.trace({ path: this.#currentPath(), event: type, object: objectKey(object), version }, "watch event");
    }
    if (type === "BOOKMARK") return;
    if (type === "DELETED") this.#remove(objectKey(object));
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
    const key = objectKey(object);
    const version = versionOf(object) ?? "";
    const before = this.#objects.get(key);
    // A list gives again what is known.
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
