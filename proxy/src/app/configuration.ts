/**
 * Applies sets of resources: translates each set, numbers the snapshot, sends it to the workers, and logs every
 * problem, every changed condition, and every address that could not be opened. Opening such an address is retried,
 * because there is no event when another process releases it.
 */
import { isDeepStrictEqual } from "node:util";
import { boundHeapGrowth } from "@gatewayproxy/runtime/allocation";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { type Problem, renderProblem } from "@gatewayproxy/runtime/problem";
import { Backoff } from "@gatewayproxy/runtime/backoff";
import { setSecretNames } from "@gatewayproxy/runtime/redaction";
import { mapInSteps, runInSlices, type Steps } from "@gatewayproxy/runtime/steps";
import type { ConfigurationState, RejectedConfiguration } from "../admin/dump/input.ts";
import type { InForceByKey } from "../api/parse-manifests.ts";
import { type RejectedResource, renderErrors } from "../api/rejected-resource.ts";
import { objectCounts, renderKey, type ResourceKey, type ResourceSet, resourceSet } from "../api/resource.ts";
import { fieldsOf, textOf } from "../kube/object.ts";
import { locateProblemsInSteps } from "../api/resource-problem.ts";
import type { Statuses } from "../api/status.ts";
import { assertSnapshot } from "../ir/assert-snapshot.ts";
import type { Snapshot } from "../ir/snapshot.ts";
import { authenticationsOf, credentialHeadersOf } from "../authentication/credential-headers.ts";
import type { BindFailure } from "../data-plane/data-plane.ts";
import { changedStatusLines, type StatusLine } from "../status/conditions.ts";
import { summaryOf } from "../status/summary.ts";
import { snapshotChanges } from "./configuration-changes.ts";
import { withPending } from "../status/pending-policies.ts";
import { withRejected } from "../status/rejected-resources.ts";
import { withUnopened } from "../status/unopened-binds.ts";
import { contained } from "../translate/containment.ts";
import type { TranslateOptions } from "../translate/context.ts";
import { noCredentials, type ValidCredentials } from "../translate/tls/credentials.ts";
import { hostEnvironment } from "../translate/environment.ts";
import type { RouteConflicts } from "../translate/route/route-conflicts.ts";
import { type Translation, translate, translateInSteps } from "../translate/translate.ts";
import { isSameFrame, type PackedSnapshot, packSnapshot } from "./snapshot-parts.ts";

/** A set of resources from a source. */
export interface SourcedResources {
  readonly resources: ResourceSet;
  /** Problems that the source found. */
  readonly problems: readonly Problem[];
  /** Resources whose previous version is in use, because the current one is invalid. */
  readonly kept: readonly ResourceKey[];
  /** Rejected resources that get a status; absent: none. */
  readonly rejected?: readonly RejectedResource[];
  /** The origin of each resource, as far as known. */
  readonly inForce: InForceByKey;
  readonly options?: Omit<TranslateOptions, "before" | "addressDenial">;
}

/** The options of the translation, and the receivers of its result. */
export interface ConfigurationOptions
  extends Pick<TranslateOptions, "refusedPolicies" | "readyReplicas" | "pathRules"> {
  /** Whether counters of long windows outlive the proxy (`--state-dir`). Default: false. */
  readonly keepsCounters?: boolean;
  /** Receives problems, changed conditions, and addresses that cannot be opened. */
  readonly log: Logger;
  /** Schedules the next attempt to open an address. */
  readonly clock: Clock;
  /** From 0 to 1, for jitter. */
  readonly random: () => number;
  /**
   * Whether a problem is logged again with each set. True for files, whose editor has just saved them; false for a
   * cluster, whose objects change often.
   */
  readonly repeatsProblems: boolean;
  /** As `TranslateOptions.addressDenial`; absent: accepts every address. */
  readonly addressDenial?: TranslateOptions["addressDenial"];
  /** The IP address of Gateways without addresses; absent: every address of the machine. */
  readonly listenAddress?: string | undefined;
  /** Serves a snapshot. Resolves with the binds that could not be opened. */
  readonly serve: (snapshot: PackedSnapshot) => Promise<readonly BindFailure[]>;
  /** Called after each attempt to open the binds. */
  readonly onServed: (served: Served) => void;
  /** Called with each applied set of resources, whether or not it changes the snapshot. */
  readonly onApplied: (generation: number, validity: Validity) => void;
}

/** The numbers of open and failed binds. */
export interface Served {
  readonly openBinds: number;
  /** Binds that could not be opened. */
  readonly failures: readonly BindFailure[];
}

/**
 * The validity of a set of resources.
 * - `valid`: it has no problem.
 * - `rejected`: it has a problem that the previous set did not have.
 * - `invalidAsBefore`: it has only problems of the previous set, which have been reported. A cluster delivers a set
 *   with each change of any object.
 */
export type Validity = "valid" | "rejected" | "invalidAsBefore";

/** The result of applying a set of resources. */
export interface Applied extends Served {
  readonly problems: readonly Problem[];
}

/** Maximum log lines of one kind for one set of resources; the others are counted. */
const maxLines = 20;

function conflictLine({ route, message }: RouteConflicts["found"][number]): string {
  return `${route} ${message}`;
}

function keyOfObject(object: RejectedResource["object"]): string {
  const { namespace, name } = fieldsOf(object["metadata"]);
  return renderKey(textOf(object["kind"]), typeof namespace === "string" ? namespace : undefined, textOf(name));
}

/** The configuration of a process. Calls of `apply` and `reopen` are executed one after the other. */
export class Configuration {
  readonly #options: ConfigurationOptions;
  /** The statuses before the first translation. */
  #none: Statuses | undefined;
  /** The statuses of the translation. */
  #translated: Statuses | undefined;
  /** The statuses with the state of the binds. */
  #statuses: Statuses | undefined;
  #credentials: ValidCredentials = noCredentials;
  #resources: ResourceSet = resourceSet([]);
  #problems: readonly Problem[] = [];
  #conflicts: RouteConflicts = { found: [], leftOut: 0, unexaminedHostnames: 0 };
  #servingSinceMs: number | undefined;
  #lastRejected: RejectedConfiguration | undefined;
  #current: Snapshot = { generation: 0, binds: [], backends: [] };
  /** The current snapshot in the form that is sent to workers. */
  #packed: PackedSnapshot = { frame: { generation: 0, binds: [], backends: [] }, groups: [] };
  #failures: readonly BindFailure[] = [];
  #reported: ReadonlySet<string> = new Set();
  readonly #backoff: Backoff;
  #retry: Timer | undefined;
  #isClosed = false;
  #lastAction: Promise<unknown> = Promise.resolve();
  /** The set that is applied next, and its result; undefined if none waits. */
  #waiting: { sourced: SourcedResources; readonly applied: Promise<Applied> } | undefined;

  constructor(options: ConfigurationOptions) {
    this.#options = options;
    this.#backoff = new Backoff({ random: options.random });
  }

  /**
   * Applies a set of resources after the one that is being applied. A set that still waits is replaced, so that a
   * process that is slower than the changes is one set behind, whatever their number. Resolves when this one, or one
   * that has replaced it, is in use.
   */
  apply(sourced: SourcedResources): Promise<Applied> {
    if (this.#waiting !== undefined) {
      this.#waiting.sourced = sourced;
      return this.#waiting.applied;
    }
    const applied = this.#enqueue(() => {
      const newest = this.#waiting?.sourced ?? sourced;
      this.#waiting = undefined;
      return this.#apply(newest);
    });
    this.#waiting = { sourced, applied };
    return applied;
  }

  /** Opens the binds that a worker does not listen on any more; retries on failure. */
  reopen(): Promise<void> {
    return this.#enqueue(() => this.#retryFailedBinds());
  }

  /** Stops opening addresses. */
  close(): void {
    this.#isClosed = true;
    this.#retry?.cancel();
  }

  /** Returns the result of the last set of resources, for operators. */
  state(): ConfigurationState {
    return {
      snapshot: this.#current,
      resources: this.#resources,
      statuses: this.#statuses ?? this.#translated ?? (this.#none ??= translate(resourceSet([])).statuses),
      problems: this.#problems,
      conflicts: this.#conflicts,
      failures: this.#failures,
      servingSinceMs: this.#servingSinceMs,
      lastRejected: this.#lastRejected,
    };
  }

  async #apply(sourced: SourcedResources): Promise<Applied> {
    const { log, clock, listenAddress, onServed } = this.#options;
    const options = {
      ...translationSettings(this.#options),
      // The number of replicas that a cluster reports replaces the setting.
      ...sourced.options,
      environment: { ...(sourced.options?.environment ?? hostEnvironment), defaultAddress: listenAddress },
      before: this.#credentials,
    };
    const startMs = clock.monotonicMs();
    const { value: translation, culprits } = await runInSlices(
      contained(sourced.resources, (resources) => translateAsserted(resources, options)),
    );
    for (const { object, errors } of culprits.slice(0, maxLines)) {
      log.error({ object: keyOfObject(object), problem: renderErrors(errors) }, "cannot translate an object");
    }
    const { binds, backends, problems: found } = translation;
    if (log.isLevelEnabled("debug")) {
      const durationMs = Math.round(clock.monotonicMs() - startMs);
      log.debug({ objects: objectCounts(sourced.resources), durationMs }, "objects translated");
    }
    const rejected = [...(sourced.rejected ?? []), ...culprits];
    const statuses = await runInSlices(withRejected(translation.statuses, rejected));
    const located = await runInSlices(locateProblemsInSteps(found, sourced.inForce));
    const problems = [...sourced.problems, ...located];
    const lines = await runInSlices(mapInSteps(problems, renderProblem));
    const hasNewProblem = this.#logProblems(problems, lines, sourced.kept);
    this.#logConflicts(translation.conflicts);
    this.#translated = statuses;
    this.#credentials = translation.credentials;
    this.#resources = sourced.resources;
    this.#problems = problems;
    this.#conflicts = translation.conflicts;

    const next = { generation: this.#current.generation + 1, binds, backends };
    const packed = await runInSlices(packSnapshot(next));
    if (!isSameFrame(packed.frame, this.#packed.frame)) {
      if (log.isLevelEnabled("debug")) log.debug(snapshotChanges(this.#current, next), "configuration changes");
      setSecretNames(credentialHeadersOf(authenticationsOf(next)));
      this.#current = next;
      this.#packed = packed;
      this.#backoff.reset();
      await this.#serve();
      this.#servingSinceMs = clock.nowMs();
      log.info({ generation: this.#current.generation, binds: binds.length }, "configuration in force");
      onServed(this.#served());
    } else {
      log.debug({ generation: this.#current.generation }, "the snapshot is unchanged");
      await this.#logStatuses();
    }
    if (problems.length > 0) {
      const { generation } = this.#current;
      this.#lastRejected = { atMs: clock.nowMs(), generation, problems, kept: sourced.kept };
    }
    boundHeapGrowth();
    this.#options.onApplied(
      this.#current.generation,
      problems.length === 0 ? "valid" : hasNewProblem ? "rejected" : "invalidAsBefore",
    );
    return { ...this.#served(), problems };
  }

  /** Serves the current snapshot. Binds that cannot be opened are retried with increasing delays. */
  async #serve(): Promise<void> {
    const { clock, serve } = this.#options;
    this.#retry?.cancel();
    const before = this.#failures;
    this.#failures = await serve(this.#packed);
    this.#logBindFailures(before);
    await this.#logStatuses();
    if (this.#failures.length === 0) this.#backoff.reset();
    else if (!this.#isClosed) this.#retry = clock.setTimer(this.#backoff.next(), () => void this.reopen());
  }

  async #retryFailedBinds(): Promise<void> {
    if (this.#isClosed) return;
    await this.#serve();
    this.#options.onServed(this.#served());
  }

  #served(): Served {
    return { openBinds: this.#current.binds.length - this.#failures.length, failures: this.#failures };
  }

  /** Runs actions one after the other, in the order of the calls. */
  #enqueue<T>(action: () => Promise<T>): Promise<T> {
    const done = this.#lastAction.then(action);
    // A failed action must not block the next one.
    this.#lastAction = done.catch(() => undefined);
    return done;
  }

  async #logStatuses(): Promise<void> {
    if (this.#translated === undefined) return;
    const opened = withUnopened(this.#translated, this.#current.binds, this.#failures);
    const statuses = { ...opened, proxyPolicies: await runInSlices(withPending(opened.proxyPolicies, opened)) };
    const lines = await runInSlices(changedStatusLines(statuses, this.#statuses));
    if (this.#statuses === undefined) this.#logSummary(lines);
    else this.#logChanges(lines);
    this.#statuses = statuses;
  }

  /** Logs the summary after the start: the number of objects, and each object with a failing condition. */
  #logSummary(lines: readonly StatusLine[]): void {
    const { log } = this.#options;
    const { objects, faulty } = summaryOf(lines);
    log.info({ objects, ...(faulty.length > 0 && { needAttention: faulty.length }) }, "objects validated");
    for (const { resource, conditions } of faulty.slice(0, maxLines)) {
      log.warn({ resource, conditions }, "object has conditions that need attention");
    }
    this.#logRest(faulty.length);
    for (const line of lines) log.debug(line, "condition");
  }

  #logChanges(lines: readonly StatusLine[]): void {
    for (const line of lines.slice(0, maxLines)) this.#options.log.info(line, "condition");
    this.#logRest(lines.length);
    for (const line of lines.slice(maxLines)) this.#options.log.debug(line, "condition");
  }

  /**
   * Logs the number of lines that were left out.
   *
   * @param count The number of all lines; `maxLines` of them were logged.
   */
  #logRest(count: number): void {
    if (count > maxLines) {
      this.#options.log.info({ more: count - maxLines }, "more lines were left out; /config_dump has them");
    }
  }

  /** Logs the changes since the last attempt. */
  #logBindFailures(before: readonly BindFailure[]): void {
    const { log } = this.#options;
    const isCurrent = ({ address, port, transport }: BindFailure) =>
      this.#current.binds.some(
        (bind) => bind.address === address && bind.port === port && bind.transport === transport,
      );
    for (const failure of this.#failures) {
      const { address, port, message } = failure;
      if (!before.some((other) => isDeepStrictEqual(other, failure))) {
        log.error({ address, port, problem: message }, "cannot listen");
      }
    }
    for (const { address, port } of before.filter(isCurrent)) {
      const fails = this.#failures.some((other) => other.address === address && other.port === port);
      if (!fails) log.info({ address, port }, "listening");
    }
  }

  /**
   * Logs one line for each rule that loses requests to other rules, up to a maximum, and one for the number of the
   * others.
   */
  #logConflicts({ found, leftOut, unexaminedHostnames }: RouteConflicts): void {
    const { log, repeatsProblems } = this.#options;
    const before = new Set(repeatsProblems ? [] : this.#conflicts.found.map(conflictLine));
    const newConflicts = found.filter((conflict) => !before.has(conflictLine(conflict)));
    for (const { route, rule, isReachable, message } of newConflicts.slice(0, maxLines)) {
      log.warn({ route, rule, isReachable, conflict: message }, "routes conflict");
    }
    const rest = newConflicts.length - maxLines + leftOut;
    if (newConflicts.length > 0 && rest > 0) log.warn({ rules: rest }, "more rules conflict; /config_dump has them");
    if (unexaminedHostnames > 0 && unexaminedHostnames !== this.#conflicts.unexaminedHostnames) {
      log.warn(
        { hostnames: unexaminedHostnames },
        "conflicts between routes were not computed for all hostnames: there are too many matches",
      );
    }
  }

  /**
   * Logs problems, and resources that stay at an earlier version.
   *
   * @param lines the rendered problems.
   * @returns whether there is a problem that the previous set did not have.
   */
  #logProblems(problems: readonly Problem[], lines: readonly string[], kept: readonly ResourceKey[]): boolean {
    const { log, repeatsProblems } = this.#options;
    const reported = repeatsProblems ? new Set<string>() : this.#reported;
    const newProblems = problems.flatMap(({ resource }, at) => {
      const problem = lines[at] ?? "";
      return reported.has(problem) ? [] : [{ resource, problem }];
    });
    for (const each of newProblems.slice(0, maxLines)) log.warn(each, "invalid configuration");
    this.#logRest(newProblems.length);
    const newlyKept = kept.filter((resource) => !reported.has(resource));
    for (const resource of newlyKept.slice(0, maxLines)) {
      log.warn({ resource }, "its previous valid version stays in use");
    }
    this.#logRest(newlyKept.length);
    this.#reported = new Set([...lines, ...kept]);
    return newProblems.length > 0;
  }
}

/** Returns the settings of every translation. */
function translationSettings({
  readyReplicas,
  addressDenial,
  refusedPolicies,
  keepsCounters = false,
  pathRules,
}: ConfigurationOptions): TranslateOptions {
  return {
    ...(readyReplicas !== undefined && { readyReplicas }),
    ...(addressDenial && { addressDenial }),
    ...(refusedPolicies && { refusedPolicies }),
    keepsCounters: () => keepsCounters,
    ...(pathRules && { pathRules }),
  };
}

/**
 * Translates resources. A snapshot that violates an invariant is an error, so that the object that causes it is
 * omitted.
 */
function* translateAsserted(resources: ResourceSet, options: TranslateOptions): Steps<Translation> {
  const translation = yield* translateInSteps(resources, options);
  yield* assertSnapshot(translation);
  return translation;
}
