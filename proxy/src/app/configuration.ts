/**
 * From resources to what is served: translates each new set, numbers the snapshot, has the workers serve it, and logs
 * what an operator must know: every problem, every condition that changed, every address that could not be opened.
 */
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { type Problem, renderProblem } from "@gatewayproxy/runtime/problem";
import type { ConfigurationState, RejectedConfiguration } from "../admin/dump/input.ts";
import type { InForceByKey } from "../api/parse-manifests.ts";
import { type ResourceKey, type ResourceSet, resourceSet } from "../api/resource.ts";
import { locateProblems } from "../api/resource-problem.ts";
import type { Statuses } from "../api/status.ts";
import type { Snapshot } from "../ir/snapshot.ts";
import type { BindFailure } from "../server/data-plane.ts";
import { changedStatusLines } from "../status/conditions.ts";
import { translate, type TranslateOptions } from "../translate/translate.ts";

/** A set of resources as a source gives it. */
export interface SourcedResources {
  readonly resources: ResourceSet;
  /** What the source has found wrong. */
  readonly problems: readonly Problem[];
  /** Resources of which an earlier version is in force, because theirs is bad now. */
  readonly kept: readonly ResourceKey[];
  /** Where they came from, as far as that can be told. */
  readonly inForce: InForceByKey;
  readonly options?: TranslateOptions;
}

export interface ConfigurationOptions {
  readonly log: Logger;
  readonly clock: Clock;
  /**
   * Whether a problem that stays is told again with each set: to an editor of files who has just saved, not of a
   * cluster that changes all the time.
   */
  readonly repeatsProblems: boolean;
  /** Serves a snapshot; resolves with the binds that could not be opened. */
  readonly serve: (snapshot: Snapshot) => Promise<readonly BindFailure[]>;
  /** Called with each set of texts that was taken, whether or not it changed what is served. */
  readonly onTaken: (generation: number, problems: readonly Problem[]) => void;
}

/** What became of a set of resources. */
export interface Taken {
  /** Listening addresses that are open now. */
  readonly openBinds: number;
  readonly problems: readonly Problem[];
  readonly failures: readonly BindFailure[];
}

export class Configuration {
  readonly #options: ConfigurationOptions;
  #statuses: Statuses | undefined;
  #resources: ResourceSet = resourceSet([]);
  #problems: readonly Problem[] = [];
  #servingSinceMs: number | undefined;
  #lastRejected: RejectedConfiguration | undefined;
  #current: Snapshot = { generation: 0, binds: [], backends: {} };
  #failures: readonly BindFailure[] = [];
  #told: ReadonlySet<string> = new Set();
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: ConfigurationOptions) {
    this.#options = options;
  }

  /** Takes one set after the other, in the order of the calls; resolves when this one is in force. */
  take(sourced: SourcedResources): Promise<Taken> {
    const taken = this.#turn.then(() => this.#take(sourced));
    this.#turn = taken;
    return taken;
  }

  /** What was last made of the resources, for operators. */
  state(): ConfigurationState {
    return {
      snapshot: this.#current,
      resources: this.#resources,
      statuses: this.#statuses ?? translate(this.#resources).statuses,
      problems: this.#problems,
      failures: this.#failures,
      servingSinceMs: this.#servingSinceMs,
      lastRejected: this.#lastRejected,
    };
  }

  async #take(sourced: SourcedResources): Promise<Taken> {
    const { log, clock, serve, onTaken } = this.#options;
    const { binds, backends, statuses, problems: found } = translate(sourced.resources, sourced.options);
    const problems = [...sourced.problems, ...locateProblems(found, sourced.inForce)];
    this.#tell(problems, sourced.kept);
    for (const line of changedStatusLines(statuses, this.#statuses)) log.info(line, "condition");
    this.#statuses = statuses;
    this.#resources = sourced.resources;
    this.#problems = problems;

    const isChanged = !isDeepStrictEqual([binds, backends], [this.#current.binds, this.#current.backends]);
    // A bind that failed is tried again with every change of the texts.
    if (isChanged || this.#failures.length > 0) {
      this.#current = { generation: this.#current.generation + 1, binds, backends };
      this.#failures = await serve(this.#current);
      this.#servingSinceMs = clock.nowMs();
      log.info({ generation: this.#current.generation, binds: binds.length }, "configuration in force");
    }
    for (const { address, port, message } of this.#failures) log.error({ address, port }, message);
    if (problems.length > 0) {
      const { generation } = this.#current;
      this.#lastRejected = { atMs: clock.nowMs(), generation, problems, kept: sourced.kept };
    }
    onTaken(this.#current.generation, problems);
    return { openBinds: binds.length - this.#failures.length, problems, failures: this.#failures };
  }

  #tell(problems: readonly Problem[], kept: readonly ResourceKey[]): void {
    const { log, repeatsProblems } = this.#options;
    const told = repeatsProblems ? new Set<string>() : this.#told;
    for (const problem of problems) {
      const text = renderProblem(problem);
      if (!told.has(text)) log.warn({ problem }, text);
    }
    for (const resource of kept) {
      if (!told.has(resource)) log.warn({ resource }, "its last good version stays in force");
    }
    this.#told = new Set([...problems.map(renderProblem), ...kept]);
  }
}
