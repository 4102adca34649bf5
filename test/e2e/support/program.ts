/** Programs of others that a test runs in the cluster. */
import { kubectl } from "./cluster.ts";

const podSecurity = { runAsNonRoot: true, runAsUser: 65_532, seccompProfile: { type: "RuntimeDefault" } };
const containerSecurity = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};

/** A program of a pod. */
export interface Program {
  readonly name: string;
  readonly image: string;
  /** Of the Service; the pod is ready when it accepts connections. */
  readonly port: number;
  /** Further ports of the Service. */
  readonly morePorts?: readonly number[];
  readonly args?: readonly string[];
  /** Files by name, below /etc/NAME/config. */
  readonly files?: Readonly<Record<string, string>>;
  readonly nodePort?: number;
}

/** A Deployment of one pod with its Service, and its files in a ConfigMap. */
export function program({
  name,
  image,
  port,
  morePorts = [],
  args = [],
  files = {},
  nodePort,
}: Program): readonly object[] {
  const labels = { app: name };
  const container = {
    name,
    image,
    imagePullPolicy: "IfNotPresent",
    args,
    ports: [{ containerPort: port }],
    readinessProbe: { tcpSocket: { port }, periodSeconds: 1 },
    securityContext: containerSecurity,
    volumeMounts: [
      { name: "files", mountPath: `/etc/${name}/config` },
      { name: "tmp", mountPath: "/tmp" },
    ],
  };
  const volumes = [
    { name: "files", configMap: { name } },
    { name: "tmp", emptyDir: {} },
  ];
  const type = nodePort === undefined ? "ClusterIP" : "NodePort";
  return [
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: files },
    {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name },
      spec: {
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { securityContext: podSecurity, containers: [container], volumes } },
      },
    },
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name },
      spec: {
        type,
        selector: labels,
        ports: [
          { name: "main", port, targetPort: port, ...(nodePort !== undefined && { nodePort }) },
          ...morePorts.map((more) => ({ name: `port-${more}`, port: more, targetPort: more })),
        ],
      },
    },
  ];
}

/** Waits until Deployments are rolled out. */
export async function rolledOut(namespace: string, ...names: readonly string[]): Promise<void> {
  for (const name of names) {
    await kubectl(["-n", namespace, "rollout", "status", `deployment/${name}`, "--timeout=90s"]);
  }
}
