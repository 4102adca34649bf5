/**
 * Keeps a copy of all objects of one kind, or of those of a selector, up to date: lists them, then watches. The
 * informer of the client library is not used, because it stops permanently after any error except 410, ignores
 * Retry-After, skips events that it cannot parse, and restarts a watch after 30 s without data.
 *
 * Known objects stay in force while the API server is unavailable, because late changes are better than a gateway
 * without routes. The events are specified in the Kubernetes API concepts, "Efficient detection of changes".
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Timer } from "@gatewayproxy/runtime/clock";
import { Backoff } from "@gatewayproxy/runtime/backoff";
import { pause } from "@gatewayproxy/runtime/pause";
import { runInSlices, type Steps } from "@gatewayproxy/runtime/steps";
import { ApiFailure, failureOfResponse, failureOfEvent } from "./api-failure.ts";
import { type ApiResponse, parseJson, readText } from "./connection.ts";
import { readJsonLines } from "./json-lines.ts";
import type { ObjectWatch, WatchOptions, WatchState } from "./object-watch.ts";
import type { WatchQuotaMember } from "./watch-quota.ts";
import { type ListEnd, readListItems } from "./list-reader.ts";
import { ListsBeside } from "./lists-beside.ts";
import { fieldsOf, isObject, type KubeObject, keyOfObject, objectsOf, textOf } from "./object.ts";
import { isOlder, versionOf } from "./resource-version.ts";

/** Starts to watch. Never fails, but retries. */
export function watchObjects<T>(options: WatchOptions<T>): ObjectWatch<T> {
  const reflector = new Reflector(options);
  void reflector.run();
  return reflector;
}

/** The retry interval for a missing kind, which an operator has to install. */
const slowRetryMs = 10_000;

/**
 * A kind that was served before counts as removed after this number of 404s, because a starting API server knows few
 * kinds.
 */
const missingLimit = 3;

/** Error responses after which a kind does not count as out of date any more, since the API server cannot serve it. */
const errorLimit = 3;

/** A warning is logged for this response with 429 of a series, since a busy API server usually recovers before. */
const busyLimit = 4;

/** A watch that ends sooner counts as failed, so that it is not repeated at once. */
const shortWatchMs = 5_000;

/**
 * The server ends a watch after a random time in this range, so that connections are spread over its replicas again.
 */
const watchSeconds = { min: 240, spread: 120 };

/**
 * A watch without an event for this time starts again from the last version, since it may deliver nothing any more. API
 * servers send a bookmark about once a minute.
 */
const silentWatchMs = 150_000;

/** The time in which events are handled in one turn of the event loop. One event may take longer. */
const sliceMs = 5;

/** The path of a collection of a CustomResourceDefinition. */
const customPath = /^\/apis\/(?<group>[^/]+)\/[^/]+\/(?<plural>[^/]+)$/;

/** Objects of one page: each takes the API server some work and memory. */
const pageSize = "100";

/**
 * The API server has an older state than it had: it was restored from a backup. It sends no events for a watch from a
 * version that it has not reached yet, and it may assign known versions to other contents.
 */
class OlderState extends Error {
  constructor(version: string, known: string) {
    super(`the API server has the older resource version ${version}, after ${known}: all objects are listed again`);
  }
}

/** Reads the pages of a list. */
interface PageReader {
  /** Resolves with the response to a request. */
  readonly reached: (response: Promise<ApiResponse>) => Promise<ApiResponse>;
  /** Receives each object. */
  readonly put: (object: KubeObject) => void;
}

class Reflector<T> implements ObjectWatch<T> {
  readonly #options: WatchOptions<T>;
  readonly #backoff: Backoff;
  readonly #ended = new AbortController();
  readonly #objects = new Map<string, { readonly version: string; readonly value: T }>();
  /** The objects of `#objects` without their versions, for callers. */
  readonly objects = new Map<string, T>();
  /** Undefined after a change. */
  #values: readonly T[] | undefined;
  state: WatchState = { kind: "starting" };
  isFailing = false;
  isOutOfDate = false;
  /** Since the API server could not be reached. */
  #errorResponses = 0;
  /** The resource version from which to watch; undefined if the objects must be listed first. */
  #version: string | undefined;
  /** The newest known version; undefined if the next state of the API server may be older. */
  #newest: string | undefined;
  /** Whether the last watch ended in another way than by the API server, so that another one may be there now. */
  #isInterrupted = false;
  /** The lists of `listAgain`. */
  readonly #beside: ListsBeside;
  /** Whether lists have one page, since the continue token of the last one expired before its end. */
  #listsWhole = false;
  #pathIndex = 0;
  /** Whether an object was added or changed since the last list. */
  #hasChanges = false;
  #missingCount = 0;
  readonly #quota: WatchQuotaMember | undefined;
  /** Whether the last attempt had no response. */
  #isUnreachable = false;
  /** Whether a wait has ended early since the last success. */
  #hasResumed = false;

  constructor(options: WatchOptions<T>) {
    this.#options = options;
    this.#backoff = new Backoff({ random: options.random });
    this.#quota = options.quota?.join();
    const { clock, random, log } = options;
    this.#beside = new ListsBeside({
      ...{ clock, random },
      list: (namespace, signal) => this.#listBeside(namespace, signal),
      onFailure: (error, waitMs) =>
        log.debug({ path: this.#currentPath(), err: error, waitMs }, "cannot list again; trying again"),
    });
  }

  get values(): readonly T[] {
    return (this.#values ??= [...this.objects.values()]);
  }

  close(): void {
    this.#ended.abort();
    this.#beside.end();
    this.#quota?.leave();
  }

  listAgain(namespaces: readonly string[], isToBeRead: (value: T) => boolean): void {
    this.#readAll(isToBeRead);
    this.#beside.add(namespaces);
  }

  replace(key: string, value: T | undefined): void {
    const known = this.#objects.get(key);
    if (known === undefined) return;
    if (value === undefined) {
      this.objects.delete(key);
      this.#objects.delete(key);
    } else {
      this.objects.set(key, value);
      this.#objects.set(key, { ...known, value });
    }
    this.#values = undefined;
    this.#hasChanges = true;
    if (!this.#ended.signal.aborted) this.#options.onChange();
  }

  async run(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      const { recovery } = this.#options.connection;
      const waitMs = await this.#attempt();
      if (waitMs > 0) await this.#waitFor(waitMs, recovery);
    }
  }

  /**
   * Waits before the next attempt. Without a response to the last one, the wait ends when the API server responds to
   * another request, so that no kind is out of date for longer than the others. It does so once until an attempt
   * succeeds: a kind whose responses always fail must not be requested at the rate of all other requests.
   */
  async #waitFor(waitMs: number, recovery: AbortSignal): Promise<void> {
    const { signal } = this.#ended;
    const canResume = this.#isUnreachable && !this.#hasResumed;
    await pause(this.#options.clock, waitMs, canResume ? AbortSignal.any([signal, recovery]) : signal);
    this.#hasResumed ||= canResume && recovery.aborted;
  }

  /** Lists if necessary, and watches until the watch ends. Returns the delay before the next attempt, in ms. */
  async #attempt(): Promise<number> {
    const { clock, log } = this.#options;
    const path = this.#currentPath();
    this.#isUnreachable = false;
    try {
      if (this.#version === undefined) await this.#withinQuota(() => this.#list(path));
      const startMs = clock.monotonicMs();
      if (this.#isInterrupted) {
        await this.#withinQuota(() => this.#checkState(path));
      }
      if (this.#quota === undefined) await this.#watch(path);
      else if (!(await this.#quota.withWatch(() => this.#watch(path)))) return this.#pollDelayMs(this.#quota.pollMs);
      if (clock.monotonicMs() - startMs < shortWatchMs) return this.#backoff.next();
      this.#succeed();
      return 0;
    } catch (error) {
      if (this.#ended.signal.aborted) return 0;
      this.#isInterrupted = true;
      this.#isUnreachable = !(error instanceof ApiFailure || error instanceof OlderState);
      if (error instanceof ApiFailure) this.#countError(error);
      this.isFailing = !(error instanceof ApiFailure && (error.status === 404 || error.status === 410));
      const waitMs = await this.#delayAfterFailure(error);
      log.debug({ path, err: error, waitMs }, "watch failed; trying again");
      return waitMs;
    }
  }

  #withinQuota(request: () => Promise<void>): Promise<void> {
    return this.#quota === undefined ? request() : this.#quota.withRequest(request);
  }

  #countError({ status }: ApiFailure): void {
    const isUnknown = status === 404 || this.state.kind !== "synced";
    // An API server that starts rejects requests until it has read the roles.
    if (!isUnknown && (status === 401 || status === 403)) return;
    if (isUnknown || ++this.#errorResponses === errorLimit) this.#endOutage();
  }

  #endOutage(): void {
    if (!this.isOutOfDate) return;
    this.isOutOfDate = false;
    if (!this.#ended.signal.aborted) this.#options.onChange();
  }

  #succeed(): void {
    this.#backoff.reset();
    this.#hasResumed = false;
  }

  /** Returns the delay before the next list, if all watches of the quota are in use. */
  #pollDelayMs(waitMs: number): number {
    this.#version = undefined;
    this.#backoff.reset();
    return waitMs * (0.75 + this.#options.random() / 4);
  }

  #currentPath(): string {
    const { paths } = this.#options;
    return paths[this.#pathIndex % paths.length] ?? paths[0];
  }

  /** Updates the state after a failure and returns the delay before the next attempt, in ms. */
  async #delayAfterFailure(error: unknown): Promise<number> {
    if (error instanceof OlderState) {
      this.#forgetVersions();
      this.#setOutOfDate();
    }
    if (!(error instanceof ApiFailure)) return this.#logRetry(error, this.#backoff.next());
    switch (error.status) {
      case 410:
        // The version has expired: later events are not available any more.
        this.#version = undefined;
        return this.#backoff.next();
      case 404:
        return this.#delayAfterMissing();
      case 401:
      case 403:
        if (this.state.kind !== "synced") this.#setState({ kind: "forbidden", message: error.message });
        // The role may be created soon, so the first retries have short delays.
        return this.#logRetry(error, this.#backoff.next());
      case 429:
        // An API server that is busy, or that starts to serve a kind, says when to send the request again.
        return this.#logRetry(error, Math.max(error.retryAfterMs ?? 0, this.#backoff.next()), busyLimit);
      default:
        return this.#logRetry(error, Math.max(error.retryAfterMs ?? 0, this.#backoff.next()));
    }
  }

  /** Logs one of a series of failures, the first by default, and returns `waitMs`. */
  #logRetry(error: unknown, waitMs: number, failures = 1): number {
    if (this.#backoff.failures === failures) {
      this.#options.log.warn({ path: this.#currentPath(), err: error }, "cannot watch; trying again");
    }
    return waitMs;
  }

  async #delayAfterMissing(): Promise<number> {
    this.#version = undefined;
    this.#pathIndex++;
    // The same version of an object has other fields in another version of its kind.
    if (this.#options.paths.length > 1) this.#readAll();
    // The API server may serve another version of the kind, which is tried at once.
    if (this.#pathIndex % this.#options.paths.length !== 0) return 0;
    this.#missingCount++;
    const mayBeMissing = this.state.kind !== "synced" || this.#missingCount >= missingLimit;
    const isMissing = mayBeMissing && (await this.#isApiServer());
    // A cluster may lack kinds for good, and each process requests these from time to time.
    const isKnown = this.state.kind === "absent";
    const versions = isMissing && !isKnown ? await this.#servedVersions() : undefined;
    if (versions !== undefined) this.#setMissing(versions);
    return slowRetryMs * (0.5 + this.#options.random() / 2);
  }

  /** @param versions the versions in which the API server serves the kind; none if its definition is missing. */
  #setMissing(versions: readonly string[]): void {
    if (versions.length > 0 && this.state.kind === "synced") {
      // The objects exist, and so do the limits that they set.
      this.isFailing = true;
      if (this.#missingCount === missingLimit) {
        this.#options.log.warn(
          { path: this.#currentPath(), versions },
          "the API server serves other versions only; the objects that are known stay in force",
        );
      }
      return;
    }
    for (const key of [...this.objects.keys()]) this.#remove(key);
    this.#setState(versions.length > 0 ? { kind: "unread", versions } : { kind: "absent" });
  }

  /**
   * Returns the versions in which the API server serves the kind: none if it does not, or if this process may not know
   * them; undefined if that is unknown at the moment.
   */
  async #servedVersions(): Promise<readonly string[] | undefined> {
    const { group, plural } = customPath.exec(this.#options.paths[0])?.groups ?? {};
    if (group === undefined || plural === undefined) return [];
    try {
      const { versions } = await this.#discovered(`/apis/${group}`);
      const served: string[] = [];
      for (const { version } of objectsOf(versions)) {
        const { resources } = await this.#discovered(`/apis/${group}/${textOf(version)}`);
        if (objectsOf(resources).some(({ name }) => name === plural)) served.push(textOf(version));
      }
      return served;
    } catch (error) {
      this.isFailing = true;
      this.#options.log.debug({ path: this.#currentPath(), err: error }, "cannot find the served versions");
      return undefined;
    }
  }

  /** Returns what the API server serves in a group or a version; nothing if it is missing or must not be read. */
  async #discovered(path: string): Promise<KubeObject> {
    const { connection } = this.#options;
    const { status, headers, json } = await connection.requestJson({ path, signal: this.#ended.signal });
    if (status !== 200 && ![401, 403, 404].includes(status)) throw failureOfResponse(status, headers, json);
    return status === 200 ? fieldsOf(json) : {};
  }

  /**
   * Whether an API server responds: a load balancer whose API servers are away may respond with 404, too, and the
   * objects must then stay. An API server responds to this path with its version, or with a status if that is
   * forbidden.
   */
  async #isApiServer(): Promise<boolean> {
    const request = this.#options.connection.requestJson({ path: "/version", signal: this.#ended.signal });
    const isApiServer = await request.then(
      ({ json }) => isObject(json) && (typeof json["major"] === "string" || json["kind"] === "Status"),
      () => false,
    );
    this.isFailing = !isApiServer;
    return isApiServer;
  }

  #setState(state: WatchState): void {
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
    const listed = new Set<string>();
    // This list has what was to be listed beside the watch.
    this.#beside.end();
    this.#options.onList?.();
    const version = await this.#readPages(path, this.#ended.signal, {
      reached: (response) => this.#reached(response),
      put: (object) => {
        listed.add(keyOfObject(object));
        this.#put(object);
      },
    });
    if (version === undefined) return;
    this.#reach(version);
    this.#isInterrupted = false;
    this.#listsWhole = false;
    const removed = [...this.objects.keys()].filter((key) => !listed.has(key));
    for (const key of removed) this.#remove(key);
    this.#options.onListed?.();
    this.#version = version;
    this.#missingCount = 0;
    this.isFailing = false;
    this.#endOutage();
    this.#options.onReceived?.();
    this.#options.log.debug({ path, objects: listed.size, removed: removed.length, version }, "listed");
    const isChanged = this.state.kind !== "synced" || this.#hasChanges || removed.length > 0;
    this.#hasChanges = false;
    if (isChanged) this.#setState({ kind: "synced" });
    this.#beside.begin();
  }

  /** Lists a namespace beside the watch, whose events are newer than the list. */
  async #listBeside(namespace: string, signal: AbortSignal): Promise<void> {
    const path = pathIn(namespace, this.#currentPath());
    let changes = 0;
    this.#options.onList?.(namespace);
    await this.#readPages(path, signal, {
      reached: (response) => response,
      put: (object) => {
        const key = keyOfObject(object);
        const isToBeRead = (this.#objects.get(key)?.version ?? "") === "" && !this.#beside.hasChanged(key);
        if (isToBeRead && !signal.aborted && this.#put(object, true)) changes++;
      },
    });
    if (signal.aborted) return;
    this.#options.onListed?.(namespace);
    this.#options.log.debug({ path, changes }, "listed again");
    if (changes > 0) this.#options.onChange();
  }

  /** Reads all pages of a collection. Returns the version of the list; undefined if the signal has ended it. */
  async #readPages(path: string, signal: AbortSignal, { reached, put }: PageReader): Promise<string | undefined> {
    const { connection, selector } = this.#options;
    let next: string | undefined;
    let version = "";
    do {
      const request = connection.request({
        path,
        query: { ...selector, ...(!this.#listsWhole && { limit: pageSize }), continue: next },
        signal,
      });
      const { status, headers, body } = await reached(request);
      if (status !== 200) {
        this.#listsWhole ||= status === 410 && next !== undefined;
        throw failureOfResponse(status, headers, parseJson(await readText(body)));
      }
      const end = await readPage(body, put);
      if (signal.aborted) return undefined;
      ({ version, next } = end);
    } while (next !== undefined);
    return version;
  }

  /**
   * Reads the current version of the API server, after which a watch can be resumed. Throws `OlderState` if it cannot.
   */
  async #checkState(path: string): Promise<void> {
    const { connection, selector } = this.#options;
    const request = connection.requestJson({ path, query: { ...selector, limit: "1" }, signal: this.#ended.signal });
    const { status, headers, json } = await this.#reached(request);
    if (status !== 200) throw failureOfResponse(status, headers, json);
    const version = versionOf(fieldsOf(json));
    if (version !== undefined) this.#reach(version, false);
    this.#isInterrupted = false;
  }

  /** Resolves with the response. If there is none, the API server that responds next may have another state. */
  #reached<Response>(response: Promise<Response>): Promise<Response> {
    return response.catch((error: unknown) => {
      this.#forgetVersions();
      this.#setOutOfDate();
      throw error;
    });
  }

  #setOutOfDate(): void {
    const wasOutOfDate = this.isOutOfDate;
    this.isOutOfDate = true;
    this.#errorResponses = 0;
    if (!wasOutOfDate && !this.#ended.signal.aborted) this.#options.onOutOfDate?.();
  }

  /** Records a version of the API server. Throws `OlderState` if it is older than the newest one. */
  #reach(version: string, isSeen = true): void {
    if (this.#newest !== undefined && isOlder(version, this.#newest)) throw new OlderState(version, this.#newest);
    if (isSeen) this.#newest = version;
  }

  async #watch(path: string): Promise<void> {
    const { clock } = this.#options;
    const interruption = new AbortController();
    let lastMs = clock.monotonicMs();
    const check = (): Timer => {
      const leftMs = lastMs + silentWatchMs - clock.monotonicMs();
      if (leftMs > 0) return clock.setTimer(leftMs, () => (timer = check()));
      this.#options.log.debug({ path, version: this.#version, silentWatchMs }, "watch is silent; a new one starts");
      interruption.abort();
      return timer;
    };
    let timer = clock.setTimer(silentWatchMs, () => (timer = check()));
    const onEvent = (): void => void (lastMs = clock.monotonicMs());
    try {
      await this.#follow(path, AbortSignal.any([this.#ended.signal, interruption.signal]), onEvent);
    } catch (error) {
      if (!interruption.signal.aborted || this.#ended.signal.aborted) throw error;
      this.#isInterrupted = true;
    } finally {
      timer.cancel();
    }
  }

  async #follow(path: string, signal: AbortSignal, onEvent: () => void): Promise<void> {
    const { connection, selector, random } = this.#options;
    const seconds = Math.round(watchSeconds.min + random() * watchSeconds.spread);
    const response = connection.request({
      path,
      query: {
        ...selector,
        watch: "1",
        resourceVersion: this.#version,
        allowWatchBookmarks: "true",
        timeoutSeconds: String(seconds),
      },
      signal,
      silenceMs: (seconds + 30) * 1_000,
    });
    const { status, headers, body } = await this.#reached(response);
    if (status !== 200) throw failureOfResponse(status, headers, parseJson(await readText(body)));
    this.isFailing = false;
    this.#options.log.debug({ path, version: this.#version, seconds }, "watch started");
    const { clock } = this.#options;
    let untilMs = clock.monotonicMs() + sliceMs;
    // Otherwise all events that have been received would be one turn, as would the text of a large one and its object.
    const endSlice = async (): Promise<void> => {
      if (clock.monotonicMs() < untilMs) return;
      await nextTurn();
      untilMs = clock.monotonicMs() + sliceMs;
    };
    for await (const event of readJsonLines(body)) {
      onEvent();
      await endSlice();
      if (this.#ended.signal.aborted) return;
      this.#handleEvent(event);
      await endSlice();
    }
    this.#options.log.debug({ path, version: this.#version }, "watch ended; a new one starts");
  }

  /**
   * Makes the next attempt list and parse all objects again: an API server that was unreachable may have been restored
   * from a backup with an older state, as `OlderState` says.
   */
  #forgetVersions(): void {
    this.#version = undefined;
    this.#newest = undefined;
    this.#readAll();
  }

  /** Makes the next list read all objects again, or some. */
  #readAll(isToBeRead: (value: T) => boolean = () => true): void {
    for (const [key, { value }] of this.#objects) {
      if (isToBeRead(value)) this.#objects.set(key, { version: "", value });
    }
  }

  #handleEvent(event: unknown): void {
    if (!isObject(event) || !isObject(event["object"])) throw new Error("an event of the watch has no object");
    const { type, object } = event;
    if (type === "ERROR") throw failureOfEvent(object);
    // The server has sent an event, so the connection works.
    this.#succeed();
    const version = versionOf(object);
    if (version !== undefined) {
      this.#reach(version);
      this.#version = version;
    }
    const { log, onReceived } = this.#options;
    onReceived?.();
    if (log.isLevelEnabled("trace")) {
      log.trace({ path: this.#currentPath(), event: type, object: keyOfObject(object), version }, "watch event");
    }
    if (type === "BOOKMARK") return;
    this.#beside.changed(keyOfObject(object));
    const isChanged = type === "DELETED" ? this.#remove(keyOfObject(object)) : this.#put(object);
    if (isChanged && !this.#ended.signal.aborted) this.#options.onChange();
  }

  /** @returns whether the object is read differently than before. */
  #put(object: KubeObject, isAgain = false): boolean {
    const key = keyOfObject(object);
    const version = versionOf(object) ?? "";
    const before = this.#objects.get(key);
    // A list repeats known objects.
    if (before !== undefined && before.version === version && version !== "") return false;
    const value = this.#options.read(object, before?.value, isAgain);
    if (value === undefined) return this.#remove(key);
    this.#objects.set(key, { version, value });
    if (before !== undefined && before.value === value) return false;
    this.objects.set(key, value);
    this.#values = undefined;
    this.#hasChanges = true;
    return true;
  }

  /** @returns whether the object was known. */
  #remove(key: string): boolean {
    const value = this.objects.get(key);
    if (value !== undefined) this.#options.onRemoved?.(value);
    this.objects.delete(key);
    this.#values = undefined;
    return this.#objects.delete(key);
  }
}

/** Reads the objects of a page. An object takes up to some milliseconds. */
async function readPage(body: AsyncIterable<Buffer>, put: PageReader["put"]): Promise<ListEnd> {
  const page = readListItems(body);
  for (;;) {
    const read = await page.next();
    if (read.done === true) return read.value;
    // The text of a large object takes as long to parse as the object to read.
    await nextTurn();
    await runInSlices(putAll(read.value, put));
    // Several reads of the socket, each with an object of 1 MiB, would be one turn.
    await nextTurn();
  }
}

function* putAll(objects: readonly KubeObject[], put: PageReader["put"]): Steps<void> {
  for (const object of objects) {
    put(object);
    yield;
  }
}

/** Returns the path of a collection in a namespace. */
function pathIn(namespace: string, path: string): string {
  const end = path.lastIndexOf("/");
  return `${path.slice(0, end)}/namespaces/${encodeURIComponent(namespace)}${path.slice(end)}`;
}
