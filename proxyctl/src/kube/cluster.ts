/**
 * The Kubernetes API as far as proxyctl needs it: pods, Gateways, and connections to ports of pods. Only this module
 * uses the client library, which takes a second to load; so it is loaded only for commands that need a cluster.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { duplexPair, type Duplex, Writable } from "node:stream";
import { CoreV1Api, CustomObjectsApi, KubeConfig, PortForward, type V1Pod } from "@kubernetes/client-node";
import * as z from "zod";
import { CommandError, textOf } from "../command-error.ts";
import { describeApiError, describeForwardError } from "./describe-error.ts";

/** The flags that select a cluster; absent ones have kubectl's defaults. */
export interface ClusterOptions {
  /** A path; absent: `$KUBECONFIG`, `~/.kube/config`, or the ServiceAccount of the pod that proxyctl runs in. */
  readonly kubeconfig?: string;
  /** A context of the kubeconfig; absent: its current one. */
  readonly context?: string;
  /** Absent: the namespace of the context. */
  readonly namespace?: string;
}

/** A Gateway, as far as it helps to find its proxy or to explain why there is none. */
export interface GatewayObject {
  readonly namespace: string;
  readonly name: string;
  readonly gatewayClass: string;
  readonly conditions: readonly {
    readonly type: string;
    readonly status: string;
    readonly reason: string;
    readonly message: string;
  }[];
}

/** A pod, as far as it matters for a connection. */
export interface Pod {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Running, ready and not terminating. */
  readonly isReady: boolean;
  /** The state for messages: `Running, not ready`, `Pending (ImagePullBackOff)`. */
  readonly state: string;
}

const gatewayApi = { group: "gateway.networking.k8s.io", version: "v1", plural: "gateways" } as const;

const gatewaySchema = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string() }),
  spec: z.object({ gatewayClassName: z.string() }),
  status: z
    .object({
      conditions: z
        .array(z.object({ type: z.string(), status: z.string(), reason: z.string(), message: z.string().default("") }))
        .default([]),
    })
    .default({ conditions: [] }),
});

const gatewayListSchema = z.object({ items: z.array(gatewaySchema) });

/** Reads the kubeconfig. Throws a `CommandError` if it is missing or invalid, or has no such context. */
export function openCluster(options: ClusterOptions): Cluster {
  const config = new KubeConfig();
  const from = options.kubeconfig ?? "the kubeconfig";
  try {
    if (options.kubeconfig === undefined) config.loadFromDefault();
    else config.loadFromFile(options.kubeconfig);
  } catch (error) {
    throw new CommandError({
      message: `read ${from}: ${textOf(error)}`,
      advice: ["check the file with `kubectl config view`, or name another with --kubeconfig FILE"],
      cause: error,
    });
  }
  config.clusters = config.clusters.map(withPlainHttpAllowed);
  chooseContext(config, from, options.context);
  return new Cluster(config, options.namespace);
}

/** Allows plain HTTP, as `kubectl proxy` serves it: the library requires `skipTLSVerify` for it. */
function withPlainHttpAllowed(cluster: KubeConfig["clusters"][number]): KubeConfig["clusters"][number] {
  return cluster.server.startsWith("http://") ? { ...cluster, skipTLSVerify: true } : cluster;
}

/** The name of the context that the library creates if it finds no kubeconfig. */
const fallbackContext = "loaded-context";

function chooseContext(config: KubeConfig, from: string, context: string | undefined): void {
  const names = config.getContexts().map(({ name }) => name);
  if (config.getCurrentContext() === fallbackContext || names.length === 0) {
    throw new CommandError({
      message: "find a cluster: there is no kubeconfig, and this does not run in a pod",
      advice: [
        "name one with --kubeconfig FILE or in $KUBECONFIG",
        "or reach a proxy without a cluster: --address HOST:PORT of its admin server",
      ],
    });
  }
  if (context !== undefined) config.setCurrentContext(context);
  if (config.getCurrentCluster() !== null) return;
  const contextName = config.getCurrentContext();
  const found = names.includes(contextName) ? "names a cluster that is not in it" : "is not in it";
  throw new CommandError({
    message: `read ${from}: the context ${JSON.stringify(contextName)} ${found}`,
    advice: [`its contexts are ${names.join(", ")}; choose one with --context NAME`],
  });
}

/** One cluster, as one user. Every failure is a `CommandError`. */
export class Cluster {
  /** The namespace of the user's flag, else of the context. */
  readonly namespace: string;
  readonly context: string;
  /** The URL of the API server. */
  readonly server: string;
  readonly #config: KubeConfig;
  readonly #core: CoreV1Api;
  readonly #objects: CustomObjectsApi;

  constructor(config: KubeConfig, namespace: string | undefined) {
    this.#config = config;
    this.context = config.getCurrentContext();
    this.server = config.getCurrentCluster()?.server ?? "";
    this.namespace = namespace ?? config.getContextObject(this.context)?.namespace ?? "default";
    this.#core = config.makeApiClient(CoreV1Api);
    this.#objects = config.makeApiClient(CustomObjectsApi);
  }

  /** Returns the version of the API server, such as `v1.34.0`. */
  async serverVersion(): Promise<string> {
    const { gitVersion } = await this.#call("read the version of the cluster", async () => {
      const { VersionApi } = await import("@kubernetes/client-node");
      return await this.#config.makeApiClient(VersionApi).getCode();
    });
    return gitVersion;
  }

  /** Returns the pods with the label, sorted by name. */
  async listPods(label: string): Promise<readonly Pod[]> {
    const { namespace } = this;
    const list = await this.#call(`list the pods of namespace ${JSON.stringify(namespace)}`, () =>
      this.#core.listNamespacedPod({ namespace, labelSelector: label }),
    );
    return list.items.map((pod) => describePod(pod, namespace)).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Returns the pod; undefined if there is none of this name. */
  async findPod(name: string): Promise<Pod | undefined> {
    const { namespace } = this;
    const pod = await this.#call(
      `read the pod ${JSON.stringify(name)}`,
      async () => await this.#core.readNamespacedPod({ namespace, name }).catch(undefinedIfMissing),
    );
    return pod === undefined ? undefined : describePod(pod, namespace);
  }

  /** Returns the Gateways of the namespace, or of all, sorted by namespace and name. */
  async listGateways(scope: "namespace" | "cluster" = "namespace"): Promise<readonly GatewayObject[]> {
    const where = scope === "namespace" ? `namespace ${JSON.stringify(this.namespace)}` : "all namespaces";
    const found: unknown = await this.#call(`list the Gateways of ${where}`, async (): Promise<unknown> => {
      if (scope === "cluster") return await this.#objects.listClusterCustomObject(gatewayApi);
      return await this.#objects.listNamespacedCustomObject({ ...gatewayApi, namespace: this.namespace });
    });
    return gatewayListSchema
      .parse(found)
      .items.map(({ metadata, spec, status }) => ({
        ...metadata,
        gatewayClass: spec.gatewayClassName,
        conditions: status.conditions,
      }))
      .sort((a, b) => (objectKey(a) < objectKey(b) ? -1 : 1));
  }

  /**
   * Connects to a port of a pod, as `kubectl port-forward` does, but without a port on this machine. The stream fails
   * with a `CommandError` if nothing listens there.
   */
  async connect(pod: string, port: number): Promise<Duplex> {
    const [near, far] = duplexPair();
    const attempt = `connect to port ${port} of pod ${this.namespace}/${pod}`;
    const errorChannel = new Writable({
      write(chunk: Buffer, _encoding, done) {
        if (chunk.length > 0) near.destroy(describeForwardError(attempt, chunk.toString("utf8").trim()));
        done();
      },
    });
    // It may fail before it is used; the caller then finds it destroyed.
    near.on("error", () => undefined);
    const forward = new PortForward(this.#config);
    try {
      const socket = await forward.portForward(this.namespace, pod, [port], far, errorChannel, far);
      // The library returns a function only if asked to reconnect.
      if (typeof socket === "function") throw new TypeError("a reconnecting forward");
      socket.onclose = () => far.end();
      near.once("close", () => socket.close());
    } catch (error) {
      throw describeForwardError(attempt, textOf(error), error);
    }
    return near;
  }

  async #call<T>(attempt: string, call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      throw describeApiError(attempt, { server: this.server, context: this.context }, error);
    }
  }
}

function undefinedIfMissing(error: unknown): undefined {
  if (error instanceof Error && "code" in error && error.code === 404) return undefined;
  throw error;
}

function describePod(pod: V1Pod, namespace: string): Pod {
  const { metadata, status } = pod;
  const phase = status?.phase ?? "Unknown";
  const isTerminating = metadata?.deletionTimestamp !== undefined;
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  const isReady = phase === "Running" && ready?.status === "True" && !isTerminating;
  const waiting = status?.containerStatuses
    ?.map(({ state }) => state?.waiting?.reason)
    .find((waitingReason) => waitingReason);
  const reason = waiting === undefined ? "" : ` (${waiting})`;
  const state = isTerminating
    ? "terminating"
    : isReady
      ? "ready"
      : phase === "Running"
        ? `not ready${reason}`
        : `${phase}${reason}`;
  return { namespace, name: metadata?.name ?? "", labels: metadata?.labels ?? {}, isReady, state };
}
