/** The cluster under test: kubectl, namespaces that go away, and waiting for what the cluster does in its own time. */
import { execFile } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";

/** The cluster by kind's name. */
export const cluster = process.env["KIND_CLUSTER"] ?? "gateway-proxy";
/** The context of kubectl that kind has made for it. */
export const context = `kind-${cluster}`;

/** Where the chart is installed. */
export const systemNamespace = "gateway-proxy-system";
/** The release of the chart, and the prefix of its names. */
export const release = "gateway-proxy";

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, whatever that is. */
export function attempt(program: string, args: readonly string[], input?: string): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = execFile(program, args, { maxBuffer: 64 * 2 ** 20 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1;
      resolve({ code, stdout, stderr });
    });
    child.stdin?.end(input);
  });
}

/** kubectl in the cluster under test, to its end. */
export function tryKubectl(args: readonly string[], input?: string): Promise<Outcome> {
  return attempt("kubectl", ["--context", context, ...args], input);
}

/** The standard output of kubectl; throws with its standard error where it fails. */
export async function kubectl(args: readonly string[], input?: string): Promise<string> {
  const { code, stdout, stderr } = await tryKubectl(args, input);
  if (code !== 0) throw new Error(`kubectl ${args.join(" ")}: ${stderr}`);
  return stdout;
}

/** helm, in the same way. */
export async function helm(args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await attempt("helm", ["--kube-context", context, ...args]);
  if (code !== 0) throw new Error(`helm ${args.join(" ")}: ${stderr}`);
  return stdout;
}

/** What these tests read of any object. */
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
 * Resolves with the first value that is not undefined. Asks again and again, for what a cluster does has no event to wait
 * for; throws what it waited for after `timeoutMs`, by default a minute.
 */
export async function eventually<T>(
  what: string,
  ask: () => Promise<T | undefined> | T | undefined,
  { timeoutMs = 60_000, everyMs = 100 } = {},
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const found = await ask();
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain until ${what}`);
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

/** A new namespace in which the Pod Security Standard "restricted" is enforced. It is deleted with what it holds at the end. */
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
      // The next test may come in by the same port once nobody has it. With the namespace alone Services would go last,
      // after pods, which take their time to end.
      await kubectl(["-n", name, "delete", "gateways,services", "--all"]);
      await kubectl(["delete", "namespace", name, "--wait=false"]);
      await eventually("its node port is free", async () =>
        (await list("services", "-n", name)).length === 0 ? true : undefined,
      );
    },
  };
}
