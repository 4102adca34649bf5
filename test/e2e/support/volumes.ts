/**
 * Volumes for claims of a test: kind has no storage class of its own offline, so directories of its node are made here.
 */
import { apply, attempt, cluster, kubectl, list } from "./cluster.ts";

/** The node of the cluster, and its container. */
const node = `${cluster}-control-plane`;

/** Volumes of the node. Their disposal deletes them with their content. */
export interface NodeVolumes extends AsyncDisposable {
  readonly storageClassName: string;
  /** Lists the files of a volume, by paths in it. */
  files(volume: string): Promise<readonly string[]>;
}

/**
 * Creates volumes of a storage class, which claims get when their pods are scheduled. They are `local` ones: unlike
 * `hostPath` their files get the group of a pod.
 */
export async function createVolumes(storageClassName: string, count: number): Promise<NodeVolumes> {
  const root = `/var/local/${storageClassName}`;
  const names = Array.from({ length: count }, (_, at) => `${storageClassName}-${at}`);
  await onNode("mkdir", "--parents", ...names.map((name) => `${root}/${name}`));
  await apply(
    "default",
    {
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name: storageClassName },
      provisioner: "kubernetes.io/no-provisioner",
      volumeBindingMode: "WaitForFirstConsumer",
    },
    ...names.map((name) => volumeOf(name, storageClassName, `${root}/${name}`)),
  );
  return {
    storageClassName,
    async files(volume) {
      const listed = await onNode("find", `${root}/${volume}`, "-type", "f", "-printf", "%P\\n");
      return listed.split("\n").filter((path) => path !== "");
    },
    async [Symbol.asyncDispose]() {
      await kubectl(["delete", "persistentvolumes", ...names, "--ignore-not-found", "--wait=false"]);
      await kubectl(["delete", "storageclass", storageClassName]);
      await onNode("rm", "--recursive", root);
    },
  };
}

function volumeOf(name: string, storageClassName: string, path: string): object {
  const ofNode = [{ key: "kubernetes.io/hostname", operator: "In", values: [node] }];
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name },
    spec: {
      ...{ storageClassName, capacity: { storage: "1Gi" }, accessModes: ["ReadWriteOnce"] },
      persistentVolumeReclaimPolicy: "Retain",
      local: { path },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: ofNode }] } },
    },
  };
}

async function onNode(...command: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await attempt("docker", ["exec", node, ...command]);
  if (code !== 0) throw new Error(`${command.join(" ")} on ${node}: ${stderr}`);
  return stdout;
}

/** A claim, and the volume that it has. */
export interface BoundClaim {
  readonly name: string;
  readonly volume: string;
}

/** The claims of a Gateway's proxies that have a volume, by name. */
export async function boundClaims(namespace: string, gateway: string): Promise<readonly BoundClaim[]> {
  const claims = await list(
    "persistentvolumeclaims",
    "-n",
    namespace,
    "-l",
    `gateway.networking.k8s.io/gateway-name=${gateway}`,
  );
  return claims.flatMap(({ metadata, spec }) => {
    const volume = spec?.["volumeName"];
    return typeof volume === "string" ? [{ name: metadata.name, volume }] : [];
  });
}
