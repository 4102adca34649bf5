/** Connects to the ports of a pod. */
import type { Reach } from "../admin/reach.ts";
import type { Cluster, Pod } from "./cluster.ts";

/** Each connection is its own port-forward through the API server. */
export function podReach(cluster: Cluster, { namespace, name }: Pod, adminPort: number): Reach {
  return {
    name: `pod ${namespace}/${name}`,
    label: name,
    adminPort,
    adminHost: `localhost:${adminPort}`,
    connect: (port) => cluster.connect(name, port),
  };
}
