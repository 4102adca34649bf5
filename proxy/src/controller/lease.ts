/**
 * Leader election by a Lease (coordination.k8s.io/v1): of several replicas one acts. Holding means having renewed
 * within the lease's duration by our own monotonic clock; others take over when they have seen no renewal for that
 * long by theirs, so clocks need not agree. A leader that cannot renew stops acting before anybody else may begin.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { type KubeApi, resourcePath } from "../kube/api.ts";
import { ApiFailure } from "../kube/api-failure.ts";
import { fieldsOf, type KubeObject } from "../kube/object.ts";

export interface LeaseOptions {
  readonly api: Pick<KubeApi, "get" | "create" | "replace">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly namespace: string;
  readonly name: string;
  /** Of this replica, unlike any other's. */
  readonly identity: string;
  /** Called when we become the leader, and when we are it no more. */
  readonly onChange: (isLeader: boolean) => void;
}

/** How long a lease holds without renewal; a dead leader is replaced after that. */
export const leaseSeconds = 15;

/** A leader that has not renewed for this long stops, while the others still wait. */
const renewDeadlineMs = 10_000;

/** How often a leader renews, and the others look. */
const retryMs = 2_000;

const leases = { apiVersion: "coordination.k8s.io/v1", plural: "leases" };

export class LeaderElection {
  readonly #options: LeaseOptions;
  /** When we last renewed; undefined while somebody else leads. */
  #renewedMs: number | undefined;
  /** The lease as we last saw it change, and when. */
  #seen: { readonly version: unknown; readonly atMs: number } | undefined;
  #timer: Timer | undefined;
  /** Ends our lead when no renewal comes. */
  #deadline: Timer | undefined;
  #turn: Promise<void> = Promise.resolve();
  /** The last attempt failed, and that has been told. */
  #isFailing = false;
  #isClosed = false;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  get isLeader(): boolean {
    return this.#renewedMs !== undefined;
  }

  /** Begins to ask for the lease. */
  start(): void {
    this.#turn = this.#round();
  }

  /** Stops leading and gives the lease free at once, so that the next leader need not wait. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    await this.#turn;
    const wasLeader = this.isLeader;
    this.#step(undefined);
    if (wasLeader) await this.#release().catch((error: unknown) => this.#failed(error));
  }

  async #round(): Promise<void> {
    const { clock } = this.#options;
    const startMs = clock.monotonicMs();
    try {
      this.#step((await this.#acquire()) ? startMs : undefined);
      this.#isFailing = false;
    } catch (error) {
      this.#failed(error);
    }
    if (this.#isClosed) return;
    this.#timer = clock.setTimer(retryMs, () => {
      this.#turn = this.#round();
    });
  }

  /** @param renewedMs when the renewal that succeeded was begun; an answer that took too long renews nothing. */
  #step(renewedMs: number | undefined): void {
    const { log, onChange, identity, clock } = this.#options;
    const before = this.isLeader;
    const leftMs = renewedMs === undefined ? 0 : renewedMs + renewDeadlineMs - clock.monotonicMs();
    this.#deadline?.cancel();
    this.#renewedMs = leftMs > 0 ? renewedMs : undefined;
    if (leftMs > 0) this.#deadline = clock.setTimer(leftMs, () => this.#step(undefined));
    if (before === this.isLeader) return;
    log.info({ identity }, this.isLeader ? "leading" : "not leading any more");
    onChange(this.isLeader);
  }

  #failed(error: unknown): void {
    // Somebody else was quicker.
    if (error instanceof ApiFailure && error.status === 409) {
      this.#options.log.debug({ err: error }, "another replica was quicker");
      return;
    }
    if (!this.#isFailing) this.#options.log.warn({ err: error }, "cannot renew the lease; it is tried again");
    this.#isFailing = true;
  }

  /** Whether the lease is ours now. */
  async #acquire(): Promise<boolean> {
    const { api, namespace, name, identity, log } = this.#options;
    const path = resourcePath(leases, namespace, name);
    const standing = await api.get(path);
    if (standing === undefined) {
      log.debug({ identity }, "lease made");
      await api.create(resourcePath(leases, namespace), this.#lease(undefined, undefined));
      return true;
    }
    const holder = holderOf(standing);
    if (holder !== identity && holder !== "" && !this.#hasExpired(standing)) {
      log.debug({ holder, identity }, "lease held by another replica");
      return false;
    }
    await api.replace(path, this.#lease(standing, holder));
    log.debug({ holder, identity }, holder === identity ? "lease renewed" : "lease taken");
    return true;
  }

  /** Whether we have seen the same version for as long as it holds. */
  #hasExpired(standing: KubeObject): boolean {
    const now = this.#options.clock.monotonicMs();
    const version = fieldsOf(standing["metadata"])["resourceVersion"];
    if (this.#seen?.version !== version) this.#seen = { version, atMs: now };
    const { leaseDurationSeconds } = fieldsOf(standing["spec"]);
    const seconds = typeof leaseDurationSeconds === "number" ? leaseDurationSeconds : leaseSeconds;
    return now - (this.#seen?.atMs ?? now) > seconds * 1_000;
  }

  #lease(standing: KubeObject | undefined, holder: string | undefined): KubeObject {
    const { clock, namespace, name, identity } = this.#options;
    const now = microTime(clock.nowMs());
    const before = standing === undefined ? {} : fieldsOf(standing["spec"]);
    const transitions = typeof before["leaseTransitions"] === "number" ? before["leaseTransitions"] : 0;
    const taken = holder === identity ? {} : { acquireTime: now, leaseTransitions: transitions + (standing ? 1 : 0) };
    return {
      apiVersion: leases.apiVersion,
      kind: "Lease",
      metadata: {
        namespace,
        name,
        ...(standing && { resourceVersion: fieldsOf(standing["metadata"])["resourceVersion"] }),
      },
      spec: { ...before, ...taken, holderIdentity: identity, leaseDurationSeconds: leaseSeconds, renewTime: now },
    };
  }

  async #release(): Promise<void> {
    const { api, namespace, name, identity } = this.#options;
    const path = resourcePath(leases, namespace, name);
    const standing = await api.get(path);
    if (standing === undefined || holderOf(standing) !== identity) return;
    const lease = this.#lease(standing, identity);
    await api.replace(path, { ...lease, spec: { ...fieldsOf(lease["spec"]), holderIdentity: "" } });
  }
}

function holderOf(lease: KubeObject): string {
  const { holderIdentity } = fieldsOf(lease["spec"]);
  return typeof holderIdentity === "string" ? holderIdentity : "";
}

/** As `metav1.MicroTime` has it: six digits of fractions. */
function microTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}
