/**
 * The controller put together: watches the cluster, and while this replica leads, keeps the objects of every Gateway
 * and writes every status. Whatever changes, all is planned anew from what is known, and only differences are written;
 * so it does not matter what was missed, in which order things came, or who led before.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logs } from "@gatewayproxy/runtime/log";
import { type Problem, renderProblem } from "@gatewayproxy/runtime/problem";
import { Backoff } from "@gatewayproxy/runtime/retry";
import { inTurns } from "@gatewayproxy/runtime/steps";
import { type RejectedResource, renderFaults } from "../api/rejected-resource.ts";
import { objectCounts } from "../api/resource.ts";
import { KubeApi } from "../kube/api.ts";
import type { ClusterConnection } from "../kube/connection.ts";
import { fieldsOf, textOf } from "../kube/object.ts";
import { coalesce, type Coalescer } from "../source/coalesce.ts";
import {
  type KubernetesConfiguration,
  type KubernetesSource,
  openKubernetesSource,
} from "../source/kubernetes/kubernetes-source.ts";
import { StatusWriter } from "../status/writer.ts";
import { contained } from "../translate/containment.ts";
import { noCredentials } from "../translate/credentials.ts";
import { ClassFinalizer } from "./class-finalizer.ts";
import { LeaderElection } from "./lease.ts";
import { clusterStatuses, controllerObjects, planFor } from "./plan.ts";
import { Provisioner } from "./provision/provisioner.ts";
import { type ProxyDefaults, tenantName } from "./provision/workload.ts";
import { standingObjects } from "./standing.ts";

export interface ControllerOptions {
  readonly connection: ClusterConnection;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logs: Logs;
  readonly defaults: ProxyDefaults;
  /** Of the Lease. */
  readonly namespace: string;
  readonly identity: string;
  /** Called once everything is known that there is to know. */
  readonly onSynced: () => void;
  readonly onLeading: (isLeader: boolean) => void;
  readonly onWritten: (outcome: "written" | "failed") => void;
}

/** The name of the Lease. */
const leaseName = "gateway-proxy-controller";

/**
 * A connection that is dead and does not say so must not cost the lead: after that time another one is tried, and that is
 * soon enough to renew within the ten seconds that a leader has.
 */
const leaseSilenceMs = 4_000;

/** Changes come in bursts: a rollout is dozens of them. */
const quietMs = 50;
const maxMs = 250;

/** When to try again what could not be written, at the earliest. */
const retryMs = 2_000;

/** Of one kind, for one set of resources; the rest is counted. */
const maxLines = 20;

export class Controller {
  readonly #options: ControllerOptions;
  readonly #source: KubernetesSource;
  readonly #finalizer: ClassFinalizer;
  readonly #provisioner: Provisioner;
  readonly #writer: StatusWriter;
  readonly #election: LeaderElection;
  readonly #changes: Coalescer;
  #configuration: KubernetesConfiguration | undefined;
  #credentials = noCredentials;
  #told: ReadonlySet<string> = new Set();
  readonly #toldCulprits = new Set<string>();
  readonly #backoff: Backoff;
  #retry: Timer | undefined;
  /** Whether ReferenceGrants have changed since the pass began: rights must be looked at again soon. */
  #hasNewGrants = false;
  #isClosed = false;

  /** Begins at once; what cannot be reached is tried again for ever. */
  constructor(options: ControllerOptions) {
    this.#options = options;
    const { connection, clock, random, logs, namespace, identity } = options;
    const api = new KubeApi(connection);
    this.#backoff = new Backoff(random);
    const onFailure = (error: unknown, waitMs: number) =>
      logs.logger("controller::reconcile").error({ err: error, waitMs }, "cannot reconcile; it is tried again");
    this.#changes = coalesce({ clock, quietMs, maxMs, action: () => this.#reconcile(), onFailure });
    const onChange = () => this.#changes.poke();
    const isLeader = () => this.#isLeader;
    const { onWritten } = options;
    const statusLog = logs.logger("controller::status");
    const isPressed = () => this.#hasNewGrants;
    this.#writer = new StatusWriter({
      ...{ api, clock, log: statusLog, isLeader, isPressed, onWritten },
      onBehind: onChange,
    });
    const log = logs.logger("controller::provision");
    this.#finalizer = new ClassFinalizer({ api, log, isLeader });
    this.#provisioner = new Provisioner({ connection, api, clock, random, log, isLeader, onChange });
    this.#source = openKubernetesSource({
      ...{ connection, clock, random, keepsStatus: true },
      log: logs.logger("controller::source"),
      *select(resources) {
        // What cannot be judged is found by each plan too, and reported there.
        const { value: named } = yield* contained(resources, controllerObjects);
        return { resources, named };
      },
      publish: (configuration) => this.#take(configuration),
    });
    this.#election = new LeaderElection({
      ...{ api: new KubeApi(connection, leaseSilenceMs), clock, namespace, identity, name: leaseName },
      log: logs.logger("controller::leader"),
      onChange: (isLeader) => {
        options.onLeading(isLeader);
        onChange();
      },
    });
    this.#election.start();
  }

  /** Finishes the requests under way, leaves the rest to another replica and gives it the lead. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#source.close();
    this.#provisioner.close();
    await this.#changes.close();
    this.#retry?.cancel();
    await this.#election.close();
  }

  get #isLeader(): boolean {
    return !this.#isClosed && this.#election.isLeader;
  }

  #take(configuration: KubernetesConfiguration): void {
    const { resources, rejected, kept } = configuration;
    const before = this.#configuration?.resources.ReferenceGrant ?? [];
    this.#hasNewGrants ||= !isSameList(before, resources.ReferenceGrant);
    this.#configuration = configuration;
    const log = this.#options.logs.logger("controller::config");
    if (log.isLevelEnabled("debug")) {
      log.debug({ objects: objectCounts(resources), rejected: rejected.length, kept: kept.length }, "objects taken");
    }
    this.#tell(configuration.problems);
    this.#changes.poke();
  }

  /** Each problem once; what translation finds is told by statuses. */
  #tell(problems: readonly Problem[]): void {
    const log = this.#options.logs.logger("controller::config");
    const texts = problems.map(renderProblem);
    const news = texts.filter((text) => !this.#told.has(text));
    for (const text of news.slice(0, maxLines)) log.warn({ problem: text }, "wrong configuration");
    if (news.length > maxLines) log.warn({ more: news.length - maxLines }, "and more; statuses have them");
    this.#told = new Set(texts);
  }

  /** Once for each version of an object. */
  #tellCulprits(culprits: readonly RejectedResource[]): void {
    const log = this.#options.logs.logger("controller::reconcile");
    for (const { object, faults } of culprits) {
      const { namespace, name, uid, generation } = fieldsOf(object["metadata"]);
      const key = `${textOf(uid)} ${textOf(generation)}`;
      if (this.#toldCulprits.has(key)) continue;
      this.#toldCulprits.add(key);
      const problem = renderFaults(faults);
      log.error({ kind: object["kind"], namespace, name, problem }, "cannot plan for an object");
    }
    if (culprits.length === 0) this.#toldCulprits.clear();
  }

  async #reconcile(): Promise<void> {
    if (this.#configuration === undefined || !this.#provisioner.isSynced) return;
    this.#options.onSynced();
    const { resources, rejected, forbiddenKinds } = this.#configuration;
    const log = this.#options.logs.logger("controller::reconcile");
    const startMs = this.#options.clock.monotonicMs();
    this.#hasNewGrants = false;
    // Who knows no Gateway would take everything away from all of them.
    if (forbiddenKinds.some((kind) => kind === "GatewayClass" || kind === "Gateway")) {
      log.debug({ forbiddenKinds }, "pass left out, since Gateways may not be read");
      return;
    }
    const plan = await inTurns(planFor(this.#configuration, this.#options.defaults, this.#credentials));
    // Also while another replica leads: its successor must know which credentials were sound.
    this.#credentials = plan.credentials;
    this.#tellCulprits(plan.culprits);
    if (!this.#isLeader) {
      log.debug({}, "pass left to the leader");
      return;
    }
    log.debug({ gateways: resources.Gateway.length, wanted: plan.provision.wanted.length }, "pass began");
    const isKept = await this.#finalizer.reconcile(resources);
    const faults = await this.#provisioner.reconcile(plan.provision);
    const statuses = await inTurns(
      clusterStatuses(plan, {
        resources,
        faults,
        serviceOf: (gateway) => this.#provisioner.standing("Service", gateway.metadata.namespace, tenantName(gateway)),
      }),
    );
    const isWritten = await this.#writer.write(statuses, standingObjects(resources, rejected));
    this.#retry?.cancel();
    const durationMs = Math.round(this.#options.clock.monotonicMs() - startMs);
    log.debug(
      { durationMs, faults: faults.gateways.size, withheld: faults.withheld.size, isWritten, isKept },
      "pass ended",
    );
    const isMade = faults.gateways.size === 0 && faults.withheld.size === 0;
    if (!isMade || !isWritten || !isKept) this.#retryLater();
    else this.#backoff.reset();
  }

  /** What is refused may be refused for long: each time later, up to 10 s. */
  #retryLater(): void {
    const waitMs = Math.max(retryMs, this.#backoff.next());
    this.#retry = this.#options.clock.setTimer(waitMs, () => this.#changes.poke());
  }
}

/** Whether two lists have the same items in the same order. What has not changed in the cluster is the same object. */
function isSameList(a: readonly object[], b: readonly object[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}
