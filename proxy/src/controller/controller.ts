/**
 * The controller: watches the cluster and, while this replica is the leader, reconciles the objects of every Gateway
 * and writes every status. Each pass computes the whole desired state from the current state and writes only
 * differences. It therefore does not depend on missed events, on their order, or on the previous leader.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logs } from "@gatewayproxy/runtime/log";
import { type Problem, renderProblem } from "@gatewayproxy/runtime/problem";
import { Backoff } from "@gatewayproxy/runtime/backoff";
import { differenceBetween } from "@gatewayproxy/runtime/lists";
import { isSettledWithin } from "@gatewayproxy/runtime/settled-within";
import { runInSlices } from "@gatewayproxy/runtime/steps";
import { type RejectedResource, renderErrors } from "../api/rejected-resource.ts";
import { objectCounts } from "../api/resource.ts";
import { KubeApi } from "../kube/api.ts";
import type { ClusterConnection } from "../kube/connection.ts";
import { fieldsOf, textOf } from "../kube/object.ts";
import { maxPassMs } from "../kube/write-order.ts";
import { coalesce, type Coalescer } from "../source/coalesce.ts";
import {
  type KubernetesConfiguration,
  type KubernetesSource,
  openKubernetesSource,
} from "../source/kubernetes/kubernetes-source.ts";
import { keptStatus } from "../source/kubernetes/kept-status.ts";
import { StatusWriter } from "../status/writer.ts";
import { contained } from "../translate/containment.ts";
import { secretSelections } from "../translate/reference/selected-secrets.ts";
import { ClassFinalizer } from "./class-finalizer.ts";
import { DefinitionWatch, supportedVersion } from "./definitions.ts";
import { differsBeyondStatus } from "./desired-change.ts";
import { LeaderElection } from "./lease.ts";
import { clusterStatuses, controllerObjects, type Plan, planFor } from "./plan.ts";
import { type PlanInput, PlanInputs } from "./plan-input.ts";
import { noProvisionErrors, type ProvisionErrors, Provisioner } from "./provision/provisioner.ts";
import { type ProxyDefaults, workloadName } from "./provision/workload.ts";
import { rememberedCredentials } from "./remembered-credentials.ts";
import { currentObjects } from "./current-objects.ts";
import { permittedFeatures } from "./supported-features.ts";

/** Collaborators and settings of a `Controller`. */
export interface ControllerOptions {
  /** The cluster, with the rights of the controller's ServiceAccount. */
  readonly connection: ClusterConnection;
  /** The clock of passes, the lease and retries. */
  readonly clock: Clock;
  /** 0 ≤ random() < 1, for jitter. */
  readonly random: () => number;
  /** Creates the loggers of the modules. */
  readonly logs: Logs;
  /** The image and settings of proxies if the parameters of their class and Gateway do not set them. */
  readonly defaults: ProxyDefaults;
  /** The namespace of the Lease. */
  readonly namespace: string;
  /** The name of this replica in the Lease. */
  readonly identity: string;
  /** Called at each pass that begins with all watches synced. */
  readonly onSynced: () => void;
  /** Called when this replica becomes the leader, and when it stops being the leader. */
  readonly onLeading: (isLeader: boolean) => void;
  /** Called after each attempt to write a status. */
  readonly onWritten: (outcome: "written" | "failed") => void;
}

/** The name of the Lease. */
const leaseName = "gateway-proxy-controller";

/**
 * Time without a response after which a request for the Lease fails and the next one uses another connection. It leaves
 * time to renew within the renew deadline of 10 s, so that a dead connection does not end the lead.
 */
const leaseSilenceMs = 4_000;

/**
 * A pass begins after 50 ms without a change, and at the latest 250 ms after the first change. A rollout causes dozens
 * of changes.
 */
const quietMs = 50;
const maxMs = 250;

/** The minimum time for writes in a pass if changes wait for its end. */
const urgentPassMs = 500;

/** Statuses wait for the objects of Gateways for this time. Afterwards they are written with what is known. */
const provisionMs = 250;

/** The minimum delay before a failed write is retried. */
const retryMs = 2_000;

/** The maximum number of problems that are logged for one set of resources. The others are counted. */
const maxLines = 20;

/** Runs the controller of one replica. */
export class Controller {
  readonly #options: ControllerOptions;
  readonly #source: KubernetesSource;
  readonly #definitions: DefinitionWatch;
  readonly #finalizer: ClassFinalizer;
  readonly #provisioner: Provisioner;
  readonly #writer: StatusWriter;
  readonly #election: LeaderElection;
  readonly #changes: Coalescer;
  #configuration: KubernetesConfiguration | undefined;
  readonly #inputs = new PlanInputs();
  /** The last plan, and the input from which it was computed. */
  #planned: { readonly plan: Plan; readonly from: PlanInput } | undefined;
  /** The errors of the last provisioning. */
  #errors: ProvisionErrors = noProvisionErrors;
  #loggedProblems: ReadonlySet<string> = new Set();
  readonly #loggedCulprits = new Set<string>();
  readonly #backoff: Backoff;
  #retry: Timer | undefined;
  /** Namespaces whose ReferenceGrants changed since the pass began. The next pass changes rights to their objects. */
  #newGrants = new Set<string>();
  /** Whether anything but statuses changed since the pass began. */
  #hasChanges = false;
  /** The time that the last plan has taken. */
  #planMs = 0;
  #isClosed = false;

  /** Starts at once. Failed connections are retried without limit. */
  constructor(options: ControllerOptions) {
    this.#options = options;
    const { connection, clock, random, logs, namespace, identity } = options;
    this.#backoff = new Backoff({ random });
    const onFailure = (error: unknown, waitMs: number) =>
      logs.logger("controller::reconcile").error({ err: error, waitMs }, "cannot reconcile the cluster; trying again");
    this.#changes = coalesce({ clock, quietMs, maxMs, action: () => this.#reconcile(), onFailure });
    const onChange = () => this.#changes.trigger();
    const isLeader = () => this.#isLeader;
    // Changes in progress are completed while the controller closes.
    const api = new KubeApi(connection, { mayWrite: () => this.#election.isLeader });
    const { onWritten } = options;
    const statusLog = logs.logger("controller::status");
    const passMs = () => this.#passMs();
    this.#definitions = new DefinitionWatch({ connection, clock, random, log: statusLog, onChange });
    this.#writer = new StatusWriter({
      ...{ api, clock, log: statusLog, isLeader, passMs, onWritten },
      declared: (kind, status) => this.#definitions.declared(kind, status),
      keptOf: keptStatus,
      onBehind: onChange,
    });
    const log = logs.logger("controller::provision");
    this.#finalizer = new ClassFinalizer({ api, log, isLeader });
    const hasNewGrants = (namespace: string) => this.#newGrants.has(namespace);
    this.#provisioner = new Provisioner({
      ...{ connection, api, clock, random, log, isLeader, onChange, passMs, hasNewGrants },
    });
    this.#source = openKubernetesSource({
      ...{ connection, clock, random, keepsStatus: true },
      log: logs.logger("controller::source"),
      *select(resources) {
        // The objects that cannot be processed are not needed here, because each plan finds and reports them.
        const { value: objects } = yield* contained(resources, controllerObjects);
        return { resources, ...objects, selections: secretSelections(resources) };
      },
      publish: (configuration) => this.#setConfiguration(configuration),
    });
    this.#election = new LeaderElection({
      ...{ api: new KubeApi(connection, { silenceMs: leaseSilenceMs }), clock, namespace, identity, name: leaseName },
      log: logs.logger("controller::leader"),
      onChange: (isLeader) => {
        options.onLeading(isLeader);
        onChange();
      },
    });
    this.#election.start();
  }

  /** Finishes the requests in progress, and releases the Lease so that another replica can lead. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#source.close();
    this.#provisioner.close();
    this.#definitions.close();
    await this.#changes.close();
    this.#retry?.cancel();
    // Another replica must not write before them.
    await Promise.all([this.#provisioner.writesEnded(), this.#writer.writesEnded()]);
    await this.#election.close();
  }

  get #isLeader(): boolean {
    return !this.#isClosed && this.#election.isLeader;
  }

  #setConfiguration(configuration: KubernetesConfiguration): void {
    const { resources, rejected, kept } = configuration;
    const before = this.#configuration?.resources;
    if (before !== undefined) {
      this.#hasChanges ||= differsBeyondStatus(before, resources);
      const { removed, added } = differenceBetween(before.ReferenceGrant, resources.ReferenceGrant);
      for (const { metadata } of [...removed, ...added]) this.#newGrants.add(metadata.namespace);
    }
    this.#configuration = configuration;
    const log = this.#options.logs.logger("controller::config");
    if (log.isLevelEnabled("debug")) {
      log.debug(
        { objects: objectCounts(resources), rejected: rejected.length, kept: kept.length },
        "configuration received",
      );
    }
    this.#logProblems(configuration.problems);
    this.#changes.trigger();
  }

  /** Logs each problem of parsing once. Problems of the translation are in the statuses. */
  #logProblems(problems: readonly Problem[]): void {
    const log = this.#options.logs.logger("controller::config");
    const texts = problems.map(renderProblem);
    const newProblems = texts.filter((text) => !this.#loggedProblems.has(text));
    for (const text of newProblems.slice(0, maxLines)) log.warn({ problem: text }, "invalid configuration");
    if (newProblems.length > maxLines) {
      log.warn(
        { more: newProblems.length - maxLines },
        "further problems are not logged; the statuses of the objects contain them",
      );
    }
    this.#loggedProblems = new Set(texts);
  }

  /** Logs objects whose processing failed, once for each version. */
  #logCulprits(culprits: readonly RejectedResource[]): void {
    const log = this.#options.logs.logger("controller::reconcile");
    for (const { object, errors } of culprits) {
      const { namespace, name, uid, generation } = fieldsOf(object["metadata"]);
      const key = `${textOf(uid)} ${textOf(generation)}`;
      if (this.#loggedCulprits.has(key)) continue;
      this.#loggedCulprits.add(key);
      const problem = renderErrors(errors);
      log.error(
        { kind: object["kind"], namespace, name, problem },
        "cannot compute the workload and status of an object; it is left out",
      );
    }
    if (culprits.length === 0) this.#loggedCulprits.clear();
  }

  async #reconcile(): Promise<void> {
    if (this.#configuration === undefined || !this.#provisioner.isListed || !this.#definitions.isRead) return;
    this.#options.onSynced();
    const configuration = this.#configuration;
    const { resources, forbiddenKinds } = configuration;
    const log = this.#options.logs.logger("controller::reconcile");
    const startMs = this.#options.clock.monotonicMs();
    this.#newGrants = new Set();
    this.#hasChanges = false;
    // If Gateways cannot be read, the pass would delete the objects of all of them.
    if (forbiddenKinds.some((kind) => kind === "GatewayClass" || kind === "Gateway")) {
      log.debug({ forbiddenKinds }, "pass skipped: no permission to read Gateways");
      return;
    }
    // Rights would be given that other objects do not permit any more.
    if (this.#source.isRecovering) {
      log.debug({}, "pass skipped: some kinds are out of date after an outage of the API server");
      this.#retry?.cancel();
      this.#retry = this.#options.clock.setTimer(maxMs, () => this.#changes.trigger());
      return;
    }
    // Computed also while another replica leads, because a new leader needs the last valid credentials.
    const plan = await this.#planOf(configuration);
    this.#planMs = this.#options.clock.monotonicMs() - startMs;
    if (!this.#isLeader) {
      log.debug({}, "pass skipped: another replica leads");
      return;
    }
    log.debug({ gateways: resources.Gateway.length, desired: plan.provision.desired.length }, "pass began");
    const areFinalizersSet = await this.#finalizer.reconcile(resources);
    const provisioned = this.#provisioner.reconcile(plan.provision);
    const isQuick = await isSettledWithin(provisioned, this.#options.clock, provisionMs);
    if (!isQuick) await this.#writeStatuses(plan, configuration, this.#errors);
    const errors = await provisioned;
    this.#errors = errors;
    const isWritten = await this.#writeStatuses(plan, configuration, errors);
    this.#retry?.cancel();
    const durationMs = Math.round(this.#options.clock.monotonicMs() - startMs);
    log.debug(
      { durationMs, failed: errors.gateways.size, withheld: errors.withheld.size, isWritten, areFinalizersSet },
      "pass ended",
    );
    const isProvisioned =
      errors.gateways.size === 0 &&
      errors.withheld.size === 0 &&
      this.#provisioner.listError === undefined &&
      !this.#provisioner.hasOpenChanges;
    if (!isProvisioned || !isWritten || !areFinalizersSet) this.#retryLater();
    else this.#backoff.reset();
  }

  /** Computes the plan of a configuration, or returns the last one if only statuses differ. */
  async #planOf(configuration: KubernetesConfiguration): Promise<Plan> {
    const last = this.#planned;
    const input = await runInSlices(this.#inputs.next(configuration));
    if (last?.from === input) return last.plan;
    const before = last?.plan.credentials ?? rememberedCredentials(configuration.resources);
    const plan = await runInSlices(planFor(input, this.#options.defaults, before));
    this.#planned = { plan, from: input };
    this.#logCulprits(plan.culprits);
    return plan;
  }

  /** Writes all statuses that differ. Resolves with false if one was not written. */
  async #writeStatuses(
    plan: Plan,
    { resources, rejected }: KubernetesConfiguration,
    errors: ProvisionErrors,
  ): Promise<boolean> {
    const definitions = this.#definitions.current;
    const statuses = await runInSlices(
      clusterStatuses(plan, {
        resources,
        errors,
        areServicesKnown: this.#provisioner.isKnown("Service"),
        listError: this.#provisioner.listError,
        supportedVersion: supportedVersion(definitions),
        features: permittedFeatures(definitions),
        workloadOf: ({ kind, namespace, name }) => this.#provisioner.current(kind, namespace, name),
        serviceOf: (gateway) => this.#provisioner.current("Service", gateway.metadata.namespace, workloadName(gateway)),
      }),
    );
    return await this.#writer.write(statuses, currentObjects(resources, rejected));
  }

  /**
   * Returns the maximum time for statuses, and for objects of Gateways, in the pass in progress. If a change waits for
   * its end, it is short, but not shorter than a plan takes, so that changes without end leave half of the time to
   * writes. A new grant waits for 0.5 s at most.
   */
  #passMs(): number {
    if (this.#newGrants.size > 0) return urgentPassMs;
    return this.#hasChanges ? Math.min(maxPassMs, Math.max(urgentPassMs, this.#planMs)) : maxPassMs;
  }

  /** Schedules another pass, after 2 s at first and up to 10 s after repeated failures. */
  #retryLater(): void {
    const waitMs = Math.max(retryMs, this.#backoff.next());
    this.#retry = this.#options.clock.setTimer(waitMs, () => this.#changes.trigger());
  }
}
