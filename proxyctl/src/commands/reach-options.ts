/** The flags that say which proxy a command is about, and the way from them to it. The same for every command. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { socketAddress } from "@gatewayproxy/runtime/setting-kinds";
import { AdminClient } from "../admin/admin-client.ts";
import { directReach, type Reach } from "../admin/reach.ts";
import type { ClusterOptions } from "../kube/cluster.ts";
import { parseTarget, type Target } from "../kube/target.ts";

/** As commander gives them. */
export interface ReachOptions extends ClusterOptions {
  readonly address?: { readonly host: string; readonly port: number };
  readonly adminPort: number;
  readonly pod?: string;
  readonly allPods?: true;
}

/** Where the proxy's admin server listens unless it was told otherwise. */
const defaultAdminPort = 15_000;

const ofCluster = ["context", "kubeconfig", "pod", "allPods"];

/** Adds the flags. `--all-pods` only where more than one answer makes sense. */
export function addReachOptions(command: Command, { allPods }: { readonly allPods: boolean }): Command {
  command
    .option("-n, --namespace <name>", "namespace of the Gateway (default: that of the context)")
    .option("--context <name>", "context of the kubeconfig")
    .option("--kubeconfig <file>", "kubeconfig to use instead of $KUBECONFIG and ~/.kube/config")
    .option("--pod <name>", "ask this pod, ready or not, instead of the first ready one by name");
  if (allPods) command.option("--all-pods", "ask every ready pod of the Gateway");
  return command
    .addOption(
      new Option("--admin-port <port>", "port of the admin server in the pod")
        .argParser(parsePort)
        .default(defaultAdminPort),
    )
    .addOption(
      new Option("--address <host:port>", "ask the admin server at this address, without a cluster")
        .argParser(parseAddress)
        .conflicts(ofCluster),
    );
}

/** For commander: a whole number that is a port. */
export function parsePort(text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port >= 1 && port <= 65_535) return port;
  throw new InvalidArgumentError("It must be a port from 1 to 65535.");
}

function parseAddress(text: string): { readonly host: string; readonly port: number } {
  const address = socketAddress.parse(text);
  if (address !== undefined && address.port !== 0) {
    return { host: text.startsWith(":") ? "127.0.0.1" : address.host, port: address.port };
  }
  throw new InvalidArgumentError("It must be HOST:PORT, [IPV6]:PORT or :PORT with a port from 1 to 65535.");
}

/** The namespace that a `gateway/NAME` is meant in where there is no cluster to say. */
export function namespaceOf({ namespace }: ReachOptions): string {
  return namespace ?? "default";
}

/** What was meant, and how to get there; never empty. Loads the Kubernetes client only where it is needed. */
export async function findReaches(resource: string | undefined, options: ReachOptions): Promise<readonly Reach[]> {
  const target = parseTargetOption(resource);
  if (options.address !== undefined) return [directReach(options.address.host, options.address.port)];
  const { openCluster } = await import("../kube/cluster.ts");
  const { podReach } = await import("../kube/pod-reach.ts");
  const { resolvePods } = await import("../kube/resolve-pods.ts");
  const cluster = openCluster(options);
  const pods = await resolvePods(cluster, {
    ...(target === undefined ? {} : { target }),
    ...(options.pod === undefined ? {} : { pod: options.pod }),
    all: options.allPods === true,
  });
  return pods.map((pod) => podReach(cluster, pod, options.adminPort));
}

/** The admin servers that were meant; never empty. */
export async function findAdmins(
  resource: string | undefined,
  options: ReachOptions,
): Promise<readonly [AdminClient, ...AdminClient[]]> {
  const [first, ...others] = (await findReaches(resource, options)).map((reach) => new AdminClient(reach));
  if (first === undefined) throw new Error("no proxy was found, and nobody said so");
  return [first, ...others];
}

/** The Gateway of a `gateway/NAME`, whose share of an answer is meant. */
export function gatewayOf(resource: string | undefined): Extract<Target, { kind: "gateway" }> | undefined {
  const target = parseTargetOption(resource);
  return target?.kind === "gateway" ? target : undefined;
}

/** A resource that may be left out. */
export function parseTargetOption(resource: string | undefined): Target | undefined {
  return resource === undefined ? undefined : parseTarget(resource);
}
