/**
 * The API server and its credentials. In a pod, this module reads the files of the service account. Elsewhere it loads
 * the client library, which supports all kinds of credentials in kubeconfig files. In a pod the library would cost 80
 * MiB of memory and most of a second at the start, for its models of every Kubernetes resource.
 */
import { readFile } from "node:fs/promises";
import type { OutgoingHttpHeaders } from "node:http";
import type { RequestOptions } from "node:https";
import { isIPv6 } from "node:net";
import { join } from "node:path";
import type { Result } from "@gatewayproxy/runtime/problem";

/** An API server. */
export interface Cluster {
  readonly server: URL;
  /** Returns the credentials for the next request. Tokens change, so each request needs a call. */
  credentials(): Promise<Credentials>;
}

/** Headers, certificates and, if an HTTP proxy is configured, the agent of a request. */
export interface Credentials extends Omit<RequestOptions, "headers"> {
  readonly headers?: OutgoingHttpHeaders;
}

/** The places in which the cluster is looked up. */
export interface ClusterSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder of the pod's service account. */
  readonly serviceAccount?: string;
}

const serviceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Finds the cluster of KUBECONFIG, else of the pod, else of ~/.kube/config. */
export async function findCluster({ env, serviceAccount }: ClusterSources): Promise<Result<Cluster>> {
  const { KUBECONFIG: files = "", KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = "443" } = env;
  if (files !== "" || host === undefined) return await kubeconfigCluster(files);
  return await podCluster(host, port, serviceAccount ?? serviceAccountFolder);
}

async function podCluster(host: string, port: string, folder: string): Promise<Result<Cluster>> {
  const server = new URL(`https://${isIPv6(host) ? `[${host}]` : host}:${port}`);
  const read = (name: string) => readFile(join(folder, name), "utf8");
  const credentials = async () => {
    const [ca, token] = await Promise.all([read("ca.crt"), read("token")]);
    return { ca, headers: { authorization: `Bearer ${token.trim()}` } };
  };
  try {
    await credentials();
    return { ok: true, value: { server, credentials } };
  } catch (error) {
    return failure(`cannot read the service account of this pod in ${folder}`, error);
  }
}

async function kubeconfigCluster(files: string): Promise<Result<Cluster>> {
  const source = files === "" ? "~/.kube/config" : `KUBECONFIG=${files}`;
  try {
    // The index of the package would load all models.
    const { KubeConfig } = await import("@kubernetes/client-node/dist/config.js");
    const config = new KubeConfig();
    config.loadFromDefault();
    const cluster = config.getCurrentCluster();
    if (cluster === null) return failure(`${source} has no current context`);
    const credentials = async () => {
      const options: RequestOptions = {};
      await config.applyToHTTPSOptions(options);
      // The library's agent does not keep connections alive, so it is used only for an HTTP proxy.
      if (cluster.proxyUrl === undefined) delete options.agent;
      const { headers, ...rest } = options;
      // The library sets headers as an object, never as a list.
      return { ...rest, headers: Object.fromEntries(Object.entries(headers ?? {})) };
    };
    await credentials();
    return { ok: true, value: { server: new URL(cluster.server), credentials } };
  } catch (error) {
    return failure(`cannot use ${source}`, error);
  }
}

function failure(attempt: string, error?: unknown): Result<never> {
  const cause = error instanceof Error ? `: ${error.message}` : "";
  return { ok: false, problems: [{ message: attempt + cause }] };
}
