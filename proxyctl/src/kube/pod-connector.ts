/** Connects to the ports of a pod. */
import type { ProxyConnector } from "../admin/proxy-connector.ts";
import type { Cluster, Pod } from "./cluster.ts";

/** Each connection is its own port-forward through the API server. */
export function podConnector(cluster: Cluster, { namespace, name }: Pod, adminPort: number): ProxyConnector {
  return {
    name: `pod ${namespace}/${name}`,
    label: name,
    adminPort,
    adminHost: `localhost:${adminPort}`,
    connect: (port) => cluster.connect(name, port),
  };
}
