/**
 * The cluster as a test of `npm run test:kube` uses it. Without a built rig such tests are skipped, counted and listed
 * at the end of the run; under CI=true they fail.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { buildCommand, requireRigProgram } from "../../rig/binaries.ts";
import { run } from "../../rig/daemon.ts";
import { ApiClient } from "./api-client.ts";

export interface Cluster {
  /** The kubeconfig of an administrator. */
  readonly kubeconfig: string;
  /** Resolves with standard output, rejects with standard error. */
  kubectl(args: readonly string[], input?: string): Promise<string>;
  /** `kubectl apply --server-side` of a YAML text. */
  apply(manifests: string): Promise<void>;
  /** One object of the API server: `get("gateway/web", "infra")`. */
  get(resource: string, namespace?: string): Promise<KubeObject>;
  /** The same, once it matches `expected` as by `toMatchObject`. */
  becomes(resource: string, namespace: string, expected: object, timeoutMs?: number): Promise<KubeObject>;
  /** Deletes a GatewayClass whose controller has ended: its finalizer may still be set. */
  deleteClass(name: string): Promise<void>;
  /** Creates a namespace with a unique name, which is deleted when the test has ended. */
  namespace(): Promise<string>;
}

/** An object of any kind, with the fields that tests read of all kinds. */
export interface KubeObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly generation?: number;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

/** The cluster of a kubeconfig. */
export function clusterOf(kubeconfig: string): Cluster {
  const kubectl: Cluster["kubectl"] = (args, input) =>
    run(requireRigProgram("kubectl"), ["--kubeconfig", kubeconfig, ...args], input);
  const api = new ApiClient(kubeconfig);
  const get: Cluster["get"] = async (resource, namespace = "") => (await api.get(resource, namespace)) as KubeObject;
  return {
    kubeconfig,
    kubectl,
    get,
    becomes: (resource, namespace, expected, timeoutMs) =>
      eventually(
        () => get(resource, namespace),
        (object) => {
          expect(object).toMatchObject(expected);
          return true;
        },
        timeoutMs,
      ),
    async apply(manifests) {
      await kubectl(["apply", "--server-side", "--force-conflicts", "-f", "-"], manifests);
    },
    async deleteClass(name) {
      await kubectl(["patch", "gatewayclass", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}']);
      await kubectl(["delete", "gatewayclass", name]);
    },
    async namespace() {
      const name = `test-${randomBytes(4).toString("hex")}`;
      await api.createNamespace(name);
      onTestFinished(() => api.deleteNamespace(name));
      return name;
    },
  };
}

/** A suite against the shared cluster; `body` gets it for use in tests and hooks only. */
export function describeCluster(title: string, body: (cluster: Cluster) => void): void {
  const kubeconfig = inject("kubeconfig");
  const missing = inject("missingPrograms");
  if (kubeconfig === undefined && process.env["CI"] === "true") {
    test(`${title}: the rig is built`, () => {
      throw new Error(`${missing.join(", ")} not built; run ${buildCommand}`);
    });
    return;
  }
  describe(title, { skip: kubeconfig === undefined, meta: { missingPrograms: missing } }, () => {
    body(clusterOf(kubeconfig ?? ""));
  });
}

/**
 * Resolves with the first value that `accepts` returns true for, polled four times a second; rejects with the last
 * value.
 */
export async function eventually<T>(
  read: () => Promise<T>,
  accepts: (value: T) => boolean,
  timeoutMs = 20_000,
): Promise<T> {
  let last: unknown;
  for (let waited = 0; waited < timeoutMs; waited += 250) {
    try {
      const value = await read();
      if (accepts(value)) return value;
      last = value;
    } catch (error) {
      last = error;
    }
    await sleep(250);
  }
  throw new Error(`not within ${timeoutMs} ms; last seen: ${render(last)}`);
}

function render(value: unknown): string {
  return value instanceof Error ? value.message : JSON.stringify(value, undefined, 1);
}
