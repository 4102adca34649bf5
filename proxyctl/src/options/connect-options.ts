/** The flags that select a proxy; the same for every command. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { listenAddress, type SocketAddress, type UnixAddress } from "@gatewayproxy/runtime/setting-kinds";

/** The flags as commander parses them. Absent flags of the cluster have kubectl's defaults. */
export interface ConnectOptions {
  /** `--kubeconfig`: a path. */
  readonly kubeconfig?: string;
  /** `--context` of the kubeconfig. */
  readonly context?: string;
  /** `-n`: the namespace of the Gateway. */
  readonly namespace?: string;
  /** `--address` of an admin server, which is used without a cluster; excludes the flags of the cluster. */
  readonly address?: SocketAddress | UnixAddress;
  /** `--admin-port`: the port of the admin server in the pod; 15000 by default. */
  readonly adminPort: number;
  /** `--admin-token`, or `PROXYCTL_ADMIN_TOKEN`. */
  readonly adminToken?: string;
  /** `--admin-token-file`: a path. */
  readonly adminTokenFile?: string;
  /** `--pod`: the name of a pod, ready or not; absent: the first ready pod by name. */
  readonly pod?: string;
  /** `--all-pods`: every ready pod of the Gateway; excludes `pod`. */
  readonly allPods?: true;
}

/** The default port of the admin server. */
const defaultAdminPort = 15_000;

/** The flags that need a cluster. */
export const clusterFlags: readonly string[] = ["context", "kubeconfig", "pod", "allPods", "adminPort"];

/** Adds the flags; `--all-pods` only for commands that can show several proxies. */
export function addConnectOptions(command: Command, { allPods }: { readonly allPods: boolean }): Command {
  command
    .option("-n, --namespace <name>", "namespace of the Gateway (default: that of the context)")
    .option("--context <name>", "context of the kubeconfig")
    .option("--kubeconfig <file>", "kubeconfig to use instead of $KUBECONFIG and ~/.kube/config")
    .option("--pod <name>", "use this pod, ready or not, instead of the first ready one by name");
  if (allPods) command.addOption(new Option("--all-pods", "use every ready pod of the Gateway").conflicts("pod"));
  return command
    .addOption(
      new Option("--admin-port <port>", "port of the admin server in the pod")
        .argParser(parsePort)
        .default(defaultAdminPort),
    )
    .addOption(new Option("--admin-token <token>", "token for the admin server").env("PROXYCTL_ADMIN_TOKEN"))
    .option("--admin-token-file <file>", "file with that token")
    .addOption(
      new Option("--address <address>", "use the admin server at HOST:PORT or unix:PATH, without a cluster")
        .argParser(parseAddress)
        .conflicts([...clusterFlags]),
    );
}

/** Parses a port from 1 to 65535, for commander. */
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
