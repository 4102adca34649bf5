/** Finds the admin servers for the flags of a command. Loads the Kubernetes client only if it is needed. */
import { readFileSync } from "node:fs";
import type { SocketAddress, UnixAddress } from "@gatewayproxy/runtime/setting-kinds";
import { AdminClient } from "../admin/admin-client.ts";
import { tcpConnector, type ProxyConnector, unixConnector } from "../admin/proxy-connector.ts";
import type { ConnectOptions } from "../options/connect-options.ts";
import { CommandError, exitCodes, textOf } from "../command-error.ts";
import { parseTarget, type Target } from "../kube/target.ts";
import { type GatewayName, requireGateway } from "../views/narrow.ts";

type Admins = readonly [AdminClient, ...AdminClient[]];

/** Returns the admin servers. A Gateway that is named must be one that they serve. */
export async function findAdmins(resource: string | undefined, options: ConnectOptions): Promise<Admins> {
  const admins = await adminClients(resource, options);
  const gateway = gatewayNameOf(resource, options);
  // In a cluster the pods were found by the name. At an address, the Gateway is looked up in the dump.
  if (options.address !== undefined && gateway !== undefined) requireGateway(await admins[0].configDump(), gateway);
  return admins;
}

/**
 * As `findAdmins`, but does not check at an address that the Gateway is served. For callers that read the dump and
 * check it there.
 */
export async function adminClients(resource: string | undefined, options: ConnectOptions): Promise<Admins> {
  const [first, ...others] = (await findConnectors(resource, options)).map((connector) => new AdminClient(connector));
  if (first === undefined) throw new Error("no proxy was found, and no error was reported");
  return [first, ...others];
}

async function findConnectors(
  resource: string | undefined,
  options: ConnectOptions,
): Promise<readonly ProxyConnector[]> {
  const target = parseTargetOption(resource);
  if (options.address !== undefined) {
    requireAddressTarget(resource, options);
    return [addressConnector(options.address, options)];
  }
  const { openCluster } = await import("../kube/cluster.ts");
  const { podConnector } = await import("../kube/pod-connector.ts");
  const { resolvePods } = await import("../kube/resolve-pods.ts");
  const cluster = openCluster(options);
  const pods = await resolvePods(cluster, {
    ...(target === undefined ? {} : { target }),
    ...(options.pod === undefined ? {} : { pod: options.pod }),
    all: options.allPods === true,
  });
  return pods.map((pod) => withToken(podConnector(cluster, pod, options.adminPort), options));
}

/** Returns the connector of the admin server at `--address`. */
export function addressConnector(address: SocketAddress | UnixAddress, options: ConnectOptions): ProxyConnector {
  const connector = "path" in address ? unixConnector(address.path) : tcpConnector(address.host, address.port);
  return withToken(connector, options);
}

/** Adds the token of the options to a connector; a token file overrides a token. */
export function withToken(connector: ProxyConnector, { adminToken, adminTokenFile }: ConnectOptions): ProxyConnector {
  const token = adminTokenFile === undefined ? adminToken : readToken(adminTokenFile);
  return token === undefined ? connector : { ...connector, adminToken: token };
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

/** Parses a resource argument that may be absent. */
export function parseTargetOption(resource: string | undefined): Target | undefined {
  return resource === undefined ? undefined : parseTarget(resource);
}

/** Returns the Gateway of `gateway/NAME`; without a cluster the default namespace is `default`. */
export function gatewayNameOf(resource: string | undefined, { namespace }: ConnectOptions): GatewayName | undefined {
  const target = parseTargetOption(resource);
  return target?.kind === "gateway" ? { namespace: namespace ?? "default", name: target.name } : undefined;
}

/** Rejects flags that have no effect with `--address`, since a user who types one expects an effect. */
export function requireAddressTarget(resource: string | undefined, { namespace }: ConnectOptions): void {
  requireNoPod(resource, "--address");
  if (namespace === undefined || resource !== undefined) return;
  throw new CommandError({
    message: "--namespace is the namespace of a Gateway, and none is named",
    advice: [`name it: gateway/NAME --namespace ${namespace}`],
    exitCode: exitCodes.usage,
  });
}

/** Rejects `pod/NAME` together with a flag that does not lead to a pod. */
export function requireNoPod(resource: string | undefined, flag: "--address" | "--file"): void {
  if (parseTargetOption(resource)?.kind !== "pod") return;
  throw new CommandError({
    message: `${resource ?? ""} cannot be used with ${flag}`,
    advice: [`leave out ${flag}, or the pod`],
    exitCode: exitCodes.usage,
  });
}
