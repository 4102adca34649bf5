/** The flags that say which proxy a command is about, and the way from them to it. The same for every command. */
import { readFileSync } from "node:fs";
import { type Command, InvalidArgumentError, Option } from "commander";
import { listenAddress, type SocketAddress, type UnixAddress } from "@gatewayproxy/runtime/setting-kinds";
import { AdminClient } from "../admin/admin-client.ts";
import { directReach, type Reach, socketReach } from "../admin/reach.ts";
import { CommandError, exitCodes, textOf } from "../command-error.ts";
import type { ClusterOptions } from "../kube/cluster.ts";
import { parseTarget, type Target } from "../kube/target.ts";

/** As commander gives them. */
export interface ReachOptions extends ClusterOptions {
  readonly address?: SocketAddress | UnixAddress;
  readonly adminPort: number;
  readonly adminToken?: string;
  readonly adminTokenFile?: string;
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
    .addOption(new Option("--admin-token <token>", "token that the admin server asks for").env("PROXYCTL_ADMIN_TOKEN"))
    .option("--admin-token-file <file>", "file with that token")
    .addOption(
      new Option("--address <address>", "ask the admin server at HOST:PORT or unix:PATH, without a cluster")
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

function parseAddress(text: string): SocketAddress | UnixAddress {
  const address = listenAddress.parse(text);
  if (address !== undefined && "path" in address) return address;
  if (address !== undefined && address.port !== 0) {
    return { host: text.startsWith(":") ? "127.0.0.1" : address.host, port: address.port };
  }
  throw new InvalidArgumentError(
    "It must be HOST:PORT, [IPV6]:PORT or :PORT with a port from 1 to 65535, or unix:/path of a socket.",
  );
}

/** The namespace that a `gateway/NAME` is meant in where there is no cluster to say. */
export function namespaceOf({ namespace }: ReachOptions): string {
  return namespace ?? "default";
}

/** What was meant, and how to get there; never empty. Loads the Kubernetes client only where it is needed. */
export async function findReaches(resource: string | undefined, options: ReachOptions): Promise<readonly Reach[]> {
  const target = parseTargetOption(resource);
  if (options.address !== undefined) return [addressReach(options.address, options)];
  const { openCluster } = await import("../kube/cluster.ts");
  const { podReach } = await import("../kube/pod-reach.ts");
  const { resolvePods } = await import("../kube/resolve-pods.ts");
  const cluster = openCluster(options);
  const pods = await resolvePods(cluster, {
    ...(target === undefined ? {} : { target }),
    ...(options.pod === undefined ? {} : { pod: options.pod }),
    all: options.allPods === true,
  });
  return pods.map((pod) => withToken(podReach(cluster, pod, options.adminPort), options));
}

/** The admin server at `--address`. */
export function addressReach(address: SocketAddress | UnixAddress, options: ReachOptions): Reach {
  const reach = "path" in address ? socketReach(address.path) : directReach(address.host, address.port);
  return withToken(reach, options);
}

/** The same reach, with the token that the options name, a file before the rest. */
export function withToken(reach: Reach, { adminToken, adminTokenFile }: ReachOptions): Reach {
  const token = adminTokenFile === undefined ? adminToken : readToken(adminTokenFile);
  return token === undefined ? reach : { ...reach, adminToken: token };
}

function readToken(file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    throw new CommandError({
      message: `read the token in ${file}: ${textOf(error)}`,
      advice: ["name the file that the proxy's --admin-token-file names, or a copy"],
      exitCode: exitCodes.usage,
      cause: error,
    });
  }
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
