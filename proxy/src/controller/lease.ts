/**
 * Leader election by a Lease (coordination.k8s.io/v1): one of several replicas acts. A leader holds the lease while it
 * renews it, measured by its own monotonic clock. Another replica takes over the lease if it has observed no renewal
 * for the duration of the lease, measured by its own clock, so the clocks need not agree. A leader that cannot renew
 * stops acting before another replica can start.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { type KubeApi, resourcePath } from "../kube/api.ts";
import { ApiFailure } from "../kube/api-failure.ts";
import { fieldsOf, type KubeObject } from "../kube/object.ts";

/** Collaborators and settings of a `LeaderElection`. */
export interface LeaseOptions {
  /** Reads and writes the Lease. */
  readonly api: Pick<KubeApi, "get" | "create" | "replace">;
  /** Measures durations by its monotonic time, and writes its wall time into the Lease. */
  readonly clock: Clock;
  /** Receives changes of the leader, and failures to renew. */
  readonly log: Logger;
  /** The namespace of the Lease. */
  readonly namespace: string;
  /** The name of the Lease. */
  readonly name: string;
  /** The name of this replica, unique among all replicas. */
  readonly identity: string;
  /** Called when this replica becomes the leader, and when it stops being the leader. */
  readonly onChange: (isLeader: boolean) => void;
}

/** Seconds for which a lease is valid without renewal. Then a dead leader is replaced. */
export const leaseSeconds = 15;

/** The time without a renewal after which a leader stops acting. Other replicas wait longer (`leaseSeconds`). */
const renewDeadlineMs = 10_000;

/** The interval at which a leader renews the lease, and the others read it. */
const retryMs = 2_000;

const leases = { apiVersion: "coordination.k8s.io/v1", plural: "leases" };

/**
 * Competes for one Lease.
 *
 * States: follower (reads the lease every 2 s), leader (renews it every 2 s; without a renewal for 10 s it becomes a
 * follower), closed (has released the lease).
 */
export class LeaderElection {
  readonly #options: LeaseOptions;
  /** The monotonic time of the last renewal; undefined while this replica does not lead. */
  #renewedMs: number | undefined;
  /** The version of the lease at its last observed change, and the time of that observation. */
  #observed: { readonly version: unknown; readonly atMs: number } | undefined;
  #timer: Timer | undefined;
  /** Ends the lead of this replica unless it renews. */
  #deadline: Timer | undefined;
  #currentRound: Promise<void> = Promise.resolve();
  /** Whether the last attempt failed; then the failure has been logged. */
  #isFailing = false;
  #isClosed = false;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  /** Whether this replica leads, by the clock: a process that was paused continues before its timers run. */
  get isLeader(): boolean {
    return this.#renewedMs !== undefined && this.#options.clock.monotonicMs() - this.#renewedMs < renewDeadlineMs;
  }

  /** Starts to compete for the lease. */
  start(): void {
    this.#currentRound = this.#round();
  }

  /** Stops leading and releases the lease, so that the next leader does not have to wait until it expires. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    await this.#currentRound;
    const wasLeader = this.isLeader;
    this.#setRenewal(undefined);
    if (wasLeader) await this.#release().catch((error: unknown) => this.#logFailure(error));
  }

  async #round(): Promise<void> {
    const { clock } = this.#options;
    const startMs = clock.monotonicMs();
    try {
      this.#setRenewal((await this.#acquire()) ? startMs : undefined);
      this.#isFailing = false;
    } catch (error) {
      this.#logFailure(error);
    }
    if (this.#isClosed) return;
    this.#timer = clock.setTimer(retryMs, () => {
      this.#currentRound = this.#round();
    });
  }

  /**
   * @param renewedMs the start of the successful renewal, undefined if it failed. A renewal that took longer than the
   * deadline has no effect.
   */
  #setRenewal(renewedMs: number | undefined): void {
    const { log, onChange, identity, clock } = this.#options;
    const wasLeading = this.#renewedMs !== undefined;
    const leftMs = renewedMs === undefined ? 0 : renewedMs + renewDeadlineMs - clock.monotonicMs();
    this.#deadline?.cancel();
    this.#renewedMs = leftMs > 0 ? renewedMs : undefined;
    if (leftMs > 0) this.#deadline = clock.setTimer(leftMs, () => this.#setRenewal(undefined));
    const isLeading = this.#renewedMs !== undefined;
    if (wasLeading === isLeading) return;
    log.info({ identity }, isLeading ? "leading" : "stopped leading");
    onChange(isLeading);
  }

  #logFailure(error: unknown): void {
    // Another replica created or replaced the lease first.
    if (error instanceof ApiFailure && error.status === 409) {
      this.#options.log.debug({ err: error }, "another writer changed the lease first");
      return;
    }
    if (!this.#isFailing) this.#options.log.warn({ err: error }, "cannot acquire or renew the lease; trying again");
    this.#isFailing = true;
  }

  /** Tries to acquire or renew the lease. Resolves with whether this replica holds it. */
  async #acquire(): Promise<boolean> {
    const { api, namespace, name, identity, log } = this.#options;
    const path = resourcePath(leases, namespace, name);
    const current = await api.get(path);
    if (current === undefined) {
      log.debug({ identity }, "creating the lease");
      await api.create(resourcePath(leases, namespace), this.#lease(undefined, undefined));
      return true;
    }
    const holder = holderOf(current);
    if (holder !== identity && holder !== "" && !this.#hasExpired(current)) {
      log.debug({ holder, identity }, "another replica holds the lease");
      return false;
    }
    await api.replace(path, this.#lease(current, holder));
    log.debug({ holder, identity }, holder === identity ? "lease renewed" : "lease acquired");
    return true;
  }

  /** Whether the same version has been observed for longer than the duration of the lease. */
  #hasExpired(current: KubeObject): boolean {
    const now = this.#options.clock.monotonicMs();
    const version = fieldsOf(current["metadata"])["resourceVersion"];
    if (this.#observed?.version !== version) this.#observed = { version, atMs: now };
    const { leaseDurationSeconds } = fieldsOf(current["spec"]);
    const seconds = typeof leaseDurationSeconds === "number" ? leaseDurationSeconds : leaseSeconds;
    return now - (this.#observed?.atMs ?? now) > seconds * 1_000;
  }

  #lease(current: KubeObject | undefined, holder: string | undefined): KubeObject {
    const { clock, namespace, name, identity } = this.#options;
    const now = microTime(clock.nowMs());
    const before = current === undefined ? {} : fieldsOf(current["spec"]);
    const transitions = typeof before["leaseTransitions"] === "number" ? before["leaseTransitions"] : 0;
    const acquired = holder === identity ? {} : { acquireTime: now, leaseTransitions: transitions + (current ? 1 : 0) };
    return {
      apiVersion: leases.apiVersion,
      kind: "Lease",
      metadata: {
        namespace,
        name,
        ...(current && { resourceVersion: fieldsOf(current["metadata"])["resourceVersion"] }),
      },
      spec: { ...before, ...acquired, holderIdentity: identity, leaseDurationSeconds: leaseSeconds, renewTime: now },
    };
  }

  async #release(): Promise<void> {
    const { api, namespace, name, identity } = this.#options;
    const path = resourcePath(leases, namespace, name);
    const current = await api.get(path);
    if (current === undefined || holderOf(current) !== identity) return;
    const lease = this.#lease(current, identity);
    await api.replace(path, { ...lease, spec: { ...fieldsOf(lease["spec"]), holderIdentity: "" } });
  }
}

function holderOf(lease: KubeObject): string {
  const { holderIdentity } = fieldsOf(lease["spec"]);
  return typeof holderIdentity === "string" ? holderIdentity : "";
}

/** Formats a time as a `metav1.MicroTime`, with six fractional digits. */
function microTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}
