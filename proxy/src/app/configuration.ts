/**
 * From resources to what is served: translates each new set, numbers the snapshot, has the workers serve it, and logs
 * what an operator must know: every problem, every condition that changed, every address that could not be opened. Such
 * an address is tried again by itself: whoever holds it gives no sign when he leaves it.
 */
import { isDeepStrictEqual } from "node:util";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { type Problem, renderProblem } from "@gatewayproxy/runtime/problem";
import { Backoff } from "@gatewayproxy/runtime/retry";
import { inTurns } from "@gatewayproxy/runtime/steps";
import type { ConfigurationState, RejectedConfiguration } from "../admin/dump/input.ts";
import type { InForceByKey } from "../api/parse-manifests.ts";
import { type RejectedResource, renderFaults } from "../api/rejected-resource.ts";
import { objectCounts, renderKey, type ResourceKey, type ResourceSet, resourceSet } from "../api/resource.ts";
import { fieldsOf, textOf } from "../kube/object.ts";
import { locateProblemsInSteps } from "../api/resource-problem.ts";
import type { Statuses } from "../api/status.ts";
import type { Snapshot } from "../ir/snapshot.ts";
import type { BindFailure } from "../server/data-plane.ts";
import { changedStatusLines, type StatusLine } from "../status/conditions.ts";
import { summaryOf } from "../status/summary.ts";
import { snapshotChanges } from "./configuration-changes.ts";
import { withPending } from "../status/pending-policies.ts";
import { withRejected } from "../status/rejected-resources.ts";
import { withUnopened } from "../status/unopened-binds.ts";
import { contained } from "../translate/containment.ts";
import { noCredentials, type SoundCredentials } from "../translate/credentials.ts";
import { hostEnvironment } from "../translate/environment.ts";
import type { RouteConflicts } from "../translate/route-conflicts.ts";
import { translate, translateInSteps, type TranslateOptions } from "../translate/translate.ts";
import { isSameFrame, type PackedSnapshot, packSnapshot } from "./snapshot-parts.ts";

/** A set of resources as a source gives it. */
export interface SourcedResources {
  readonly resources: ResourceSet;
  /** What the source has found wrong. */
  readonly problems: readonly Problem[];
  /** Resources of which an earlier version is in force, because theirs is bad now. */
  readonly kept: readonly ResourceKey[];
  /** Resources that are refused and have a status all the same; absent: none. */
  readonly rejected?: readonly RejectedResource[];
  /** Where they came from, as far as that can be told. */
  readonly inForce: InForceByKey;
  readonly options?: Omit<TranslateOptions, "before" | "refuseAddress">;
}

export interface ConfigurationOptions extends Pick<TranslateOptions, "refusedPolicies" | "pathRules"> {
  readonly log: Logger;
  readonly clock: Clock;
  /** From 0 to 1, for jitter. */
  readonly random: () => number;
  /**
   * Whether a problem that stays is told again with each set: to an editor of files who has just saved, not of a
   * cluster that changes all the time.
   */
  readonly repeatsProblems: boolean;
  /** As `TranslateOptions.refuseAddress`; absent: nothing is refused. */
  readonly refuseAddress?: TranslateOptions["refuseAddress"];
  /** The IP address at which Gateways listen that name none; absent: every address of the machine. */
  readonly listenAddress?: string | undefined;
  /** Serves a snapshot; resolves with the binds that could not be opened. */
  readonly serve: (snapshot: PackedSnapshot) => Promise<readonly BindFailure[]>;
  /** Called when an attempt to open what is to be served is over. */
  readonly onServed: (served: Served) => void;
  /** Called with each set of resources that was taken, whether or not it changed what is served. */
  readonly onTaken: (generation: number, soundness: Soundness) => void;
}

/** Which listening addresses are open. */
export interface Served {
  readonly openBinds: number;
  /** The others. */
  readonly failures: readonly BindFailure[];
}

/**
 * Whether something is wrong in a set of resources: `rejected` where it was not in the set before. A cluster gives a set
 * with each change of anything, and what somebody got wrong once is no news each time.
 */
export type Soundness = "sound" | "rejected" | "faultyAsBefore";

/** What became of a set of resources. */
export interface Taken extends Served {
  readonly problems: readonly Problem[];
}

/** Of one kind, for one set of resources; the rest is counted. */
const maxLines = 20;

function conflictLine({ route, message }: RouteConflicts["found"][number]): string {
  return `${route} ${message}`;
}

function objectName(object: RejectedResource["object"]): string {
  const { namespace, name } = fieldsOf(object["metadata"]);
  return renderKey(textOf(object["kind"]), typeof namespace === "string" ? namespace : undefined, textOf(name));
}

export class Configuration {
  readonly #options: ConfigurationOptions;
  /** As translation has them. */
  #translated: Statuses | undefined;
  /** The same with what became of the listeners. */
  #statuses: Statuses | undefined;
  #credentials: SoundCredentials = noCredentials;
  #resources: ResourceSet = resourceSet([]);
  #problems: readonly Problem[] = [];
  #conflicts: RouteConflicts = { found: [], leftOut: 0, unexaminedHostnames: 0 };
  #servingSinceMs: number | undefined;
  #lastRejected: RejectedConfiguration | undefined;
  #current: Snapshot = { generation: 0, binds: [], backends: {} };
  /** The same, as workers get it. */
  #packed: PackedSnapshot = { frame: { generation: 0, binds: [], backends: [] }, parts: new Map() };
  #failures: readonly BindFailure[] = [];
  #told: ReadonlySet<string> = new Set();
  readonly #backoff: Backoff;
  #retry: Timer | undefined;
  #isClosed = false;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: ConfigurationOptions) {
    this.#options = options;
    this.#backoff = new Backoff(options.random);
  }

  /** Takes one set after the other, in the order of the calls; resolves when this one is in force. */
  take(sourced: SourcedResources): Promise<Taken> {
    return this.#inTurn(() => this.#take(sourced));
  }

  /** Opens what some worker does not listen on any more, now and, where that fails, later. */
  openAgain(): Promise<void> {
    return this.#inTurn(() => this.#serveAgain());
  }

  /** Opens no address any more. */
  close(): void {
    this.#isClosed = true;
    this.#retry?.cancel();
  }

  /** What was last made of the resources, for operators. */
  state(): ConfigurationState {
    return {
      snapshot: this.#current,
      resources: this.#resources,
      statuses: this.#statuses ?? translate(this.#resources).statuses,
      problems: this.#problems,
      conflicts: this.#conflicts,
      failures: this.#failures,
      servingSinceMs: this.#servingSinceMs,
      lastRejected: this.#lastRejected,
    };
  }

  async #take(sourced: SourcedResources): Promise<Taken> {
    const { log, clock, refuseAddress, refusedPolicies, pathRules, listenAddress, onServed, onTaken } = this.#options;
    const options = {
      ...sourced.options,
      environment: { ...(sourced.options?.environment ?? hostEnvironment), defaultAddress: listenAddress },
      ...(refuseAddress && { refuseAddress }),
      ...(refusedPolicies && { refusedPolicies }),
      ...(pathRules && { pathRules }),
      before: this.#credentials,
    };
    const startMs = clock.monotonicMs();
    const { value: translation, culprits } = await inTurns(
      contained(sourced.resources, (resources) => translateInSteps(resources, options)),
    );
    for (const { object, faults } of culprits.slice(0, maxLines)) {
      log.error({ object: objectName(object), problem: renderFaults(faults) }, "cannot translate an object");
    }
    const { binds, backends, problems: found } = translation;
    if (log.isLevelEnabled("debug")) {
      const durationMs = Math.round(clock.monotonicMs() - startMs);
      log.debug({ objects: objectCounts(sourced.resources), durationMs }, "objects translated");
    }
    const statuses = withRejected(translation.statuses, [...(sourced.rejected ?? []), ...culprits]);
    const located = await inTurns(locateProblemsInSteps(found, sourced.inForce));
    const problems = [...sourced.problems, ...located];
    const hasNews = this.#tell(problems, sourced.kept);
    this.#tellConflicts(translation.conflicts);
    this.#translated = statuses;
    this.#credentials = translation.credentials;
    this.#resources = sourced.resources;
    this.#problems = problems;
    this.#conflicts = translation.conflicts;

    const next = { generation: this.#current.generation + 1, binds, backends };
    const packed = await inTurns(packSnapshot(next));
    if (!isSameFrame(packed.frame, this.#packed.frame)) {
      if (log.isLevelEnabled("debug")) log.debug(snapshotChanges(this.#current, next), "configuration changes");
      this.#current = next;
      this.#packed = packed;
      this.#backoff.reset();
      await this.#serve();
      this.#servingSinceMs = clock.nowMs();
      log.info({ generation: this.#current.generation, binds: binds.length }, "configuration in force");
      onServed(this.#served());
    } else {
      log.debug({ generation: this.#current.generation }, "nothing changes that is served");
      await this.#tellStatuses();
    }
    if (problems.length > 0) {
      const { generation } = this.#current;
      this.#lastRejected = { atMs: clock.nowMs(), generation, problems, kept: sourced.kept };
    }
    onTaken(this.#current.generation, problems.length === 0 ? "sound" : hasNews ? "rejected" : "faultyAsBefore");
    return { ...this.#served(), problems };
  }

  /** Serves what is current; what cannot be opened is tried again, later each time. */
  async #serve(): Promise<void> {
    const { clock, serve } = this.#options;
    this.#retry?.cancel();
    const before = this.#failures;
    this.#failures = await serve(this.#packed);
    this.#tellFailures(before);
    await this.#tellStatuses();
    if (this.#failures.length === 0) this.#backoff.reset();
    else if (!this.#isClosed) this.#retry = clock.setTimer(this.#backoff.next(), () => void this.openAgain());
  }

  async #serveAgain(): Promise<void> {
    if (this.#isClosed) return;
    await this.#serve();
    this.#options.onServed(this.#served());
  }

  #served(): Served {
    return { openBinds: this.#current.binds.length - this.#failures.length, failures: this.#failures };
  }

  /** One thing after the other, in the order of the calls. */
  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(action);
    // One that fails must not keep the next from its turn.
    this.#turn = done.catch(() => undefined);
    return done;
  }

  async #tellStatuses(): Promise<void> {
    if (this.#translated === undefined) return;
    const opened = withUnopened(this.#translated, this.#current.binds, this.#failures);
    const statuses = { ...opened, proxyPolicies: await inTurns(withPending(opened.proxyPolicies, opened)) };
    const lines = await inTurns(changedStatusLines(statuses, this.#statuses));
    if (this.#statuses === undefined) this.#tellSummary(lines);
    else this.#tellChanges(lines);
    this.#statuses = statuses;
  }

  /** At the start: how many objects there are, and each that is not fine. */
  #tellSummary(lines: readonly StatusLine[]): void {
    const { log } = this.#options;
    const { objects, faulty } = summaryOf(lines);
    log.info({ objects, ...(faulty.length > 0 && { notFine: faulty.length }) }, "objects judged");
    for (const { resource, conditions } of faulty.slice(0, maxLines)) {
      log.warn({ resource, conditions }, "object is not fine");
    }
    this.#tellRest(faulty.length);
    for (const line of lines) log.debug(line, "condition");
  }

  #tellChanges(lines: readonly StatusLine[]): void {
    for (const line of lines.slice(0, maxLines)) this.#options.log.info(line, "condition");
    this.#tellRest(lines.length);
    for (const line of lines.slice(maxLines)) this.#options.log.debug(line, "condition");
  }

  /** @param count of lines of which `maxLines` were written. */
  #tellRest(count: number): void {
    if (count > maxLines) this.#options.log.info({ more: count - maxLines }, "and more; /config_dump has them");
  }

  /** What has changed since the last attempt. */
  #tellFailures(before: readonly BindFailure[]): void {
    const { log } = this.#options;
    const stillWanted = ({ address, port }: BindFailure) =>
      this.#current.binds.some((bind) => bind.address === address && bind.port === port);
    for (const failure of this.#failures) {
      const { address, port, message } = failure;
      if (!before.some((other) => isDeepStrictEqual(other, failure))) {
        log.error({ address, port, problem: message }, "cannot listen");
      }
    }
    for (const { address, port } of before.filter(stillWanted)) {
      const fails = this.#failures.some((other) => other.address === address && other.port === port);
      if (!fails) log.info({ address, port }, "listens now");
    }
  }

  /** A line for each rule that others go before, and one for the rest of them. */
  #tellConflicts({ found, leftOut, unexaminedHostnames }: RouteConflicts): void {
    const { log, repeatsProblems } = this.#options;
    const before = new Set(repeatsProblems ? [] : this.#conflicts.found.map(conflictLine));
    const news = found.filter((conflict) => !before.has(conflictLine(conflict)));
    for (const { route, rule, isReachable, message } of news.slice(0, maxLines)) {
      log.warn({ route, rule, isReachable, conflict: message }, "routes conflict");
    }
    const rest = news.length - maxLines + leftOut;
    if (news.length > 0 && rest > 0) log.warn({ rules: rest }, "more rules conflict; /config_dump has them");
    if (unexaminedHostnames > 0 && unexaminedHostnames !== this.#conflicts.unexaminedHostnames) {
      log.warn(
        { hostnames: unexaminedHostnames },
        "too many matches at too many hostnames; conflicts there are not known",
      );
    }
  }

  /** @returns whether there was a problem to tell */
  #tell(problems: readonly Problem[], kept: readonly ResourceKey[]): boolean {
    const { log, repeatsProblems } = this.#options;
    const told = repeatsProblems ? new Set<string>() : this.#told;
    const news = problems.filter((problem) => !told.has(renderProblem(problem)));
    for (const problem of news.slice(0, maxLines)) {
      log.warn({ resource: problem.resource, problem: renderProblem(problem) }, "wrong configuration");
    }
    this.#tellRest(news.length);
    const newlyKept = kept.filter((resource) => !told.has(resource));
    for (const resource of newlyKept.slice(0, maxLines)) {
      log.warn({ resource }, "its last good version stays in force");
    }
    this.#tellRest(newlyKept.length);
    this.#told = new Set([...problems.map(renderProblem), ...kept]);
    return news.length > 0;
  }
}
