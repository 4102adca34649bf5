/** The cluster under test: kubectl, namespaces that are deleted, and waiting for the cluster. */
import { execFile } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";

/** The name of the cluster in kind. */
export const cluster = process.env["KIND_CLUSTER"] ?? "gateway-proxy";
/** The context of kubectl that kind created for it. */
export const context = `kind-${cluster}`;

/** The namespace of the installed chart. */
export const systemNamespace = "gateway-proxy-system";
/** The release of the chart, and the prefix of its names. */
export const release = "gateway-proxy";

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, and resolves even if it fails. */
export function attempt(program: string, args: readonly string[], input?: string): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = execFile(program, args, { maxBuffer: 64 * 2 ** 20 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1;
      resolve({ code, stdout, stderr });
    });
    child.stdin?.end(input);
  });
}

/** Runs kubectl in the cluster under test, and resolves even if it fails. */
export function tryKubectl(args: readonly string[], input?: string): Promise<Outcome> {
  return attempt("kubectl", ["--context", context, ...args], input);
}

/** The standard output of kubectl; throws with its standard error if it fails. */
export async function kubectl(args: readonly string[], input?: string): Promise<string> {
  const { code, stdout, stderr } = await tryKubectl(args, input);
  if (code !== 0) throw new Error(`kubectl ${args.join(" ")}: ${stderr}`);
  return stdout;
}

/** Runs helm in the same way. */
export async function helm(args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await attempt("helm", ["--kube-context", context, ...args]);
  if (code !== 0) throw new Error(`helm ${args.join(" ")}: ${stderr}`);
  return stdout;
}

/** The fields that these tests read of any object. */
export interface KubeObject {
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: {
    readonly podIP?: string;
    readonly readyReplicas?: number;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** `kubectl get` of a kind, filtered by its other arguments. */
export async function list(...args: readonly string[]): Promise<readonly KubeObject[]> {
  // As the API server writes lists.
  const { items } = JSON.parse(await kubectl(["get", ...args, "-o", "json"])) as { items: readonly KubeObject[] };
  return items;
}

/** Applies manifests to a namespace. */
export async function apply(namespace: string, ...manifests: readonly object[]): Promise<void> {
  await kubectl(
    ["apply", "--namespace", namespace, "-f", "-"],
    manifests.map((each) => JSON.stringify(each)).join("\n---\n"),
  );
}

/**
 * Resolves with the first value that is not undefined. Polls, since a cluster has no event for many changes; throws
 * with the name of the condition after `timeoutMs`, by default a minute.
 */
export async function eventually<T>(
  what: string,
  read: () => Promise<T | undefined> | T | undefined,
  { timeoutMs = 60_000, everyMs = 100 } = {},
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const found = await read();
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await delay(everyMs);
  }
}

/** Pods of a Gateway that serve, by name. */
export async function readyProxies(namespace: string, gateway: string): Promise<readonly KubeObject[]> {
  const pods = await list("pods", "-n", namespace, "-l", `gateway.networking.k8s.io/gateway-name=${gateway}`);
  return pods.filter(
    ({ status, metadata }) =>
      !("deletionTimestamp" in metadata) &&
      status?.conditions?.some((each) => each.type === "Ready" && each.status === "True"),
  );
}

/** A new namespace that enforces the Pod Security Standard "restricted". Its disposal deletes it with its objects. */
export async function createNamespace(name: string): Promise<AsyncDisposable & { readonly name: string }> {
  await kubectl(["delete", "namespace", name, "--ignore-not-found", "--wait"]);
  await apply(name, {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name, labels: { "pod-security.kubernetes.io/enforce": "restricted" } },
  });
  return {
    name,
    async [Symbol.asyncDispose]() {
      // The next test may use the same node port only once it is free. With the namespace alone Services would be
      // deleted last, after pods, which take time to end.
      await kubectl(["-n", name, "delete", "gateways,services", "--all"]);
      await kubectl(["delete", "namespace", name, "--wait=false"]);
      await eventually("its node port is free", async () =>
        (await list("services", "-n", name)).length === 0 ? true : undefined,
      );
    },
  };
}
