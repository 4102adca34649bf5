/**
 * Adds to a cluster configuration of kind the settings of the rig's node image and of this machine: `node
 * cluster-config.ts CONFIG POD_SUBNET`, with the result on standard output.
 */
import { readFileSync, statfsSync } from "node:fs";
import { parse, stringify } from "yaml";

/** linux/magic.h CGROUP2_SUPER_MAGIC. */
const cgroup2 = 0x63677270;

/** Since Kubernetes 1.35 the kubelet rejects cgroup v1 unless this setting allows it. */
const allowCgroup1 = "kind: KubeletConfiguration\nfailCgroupV1: false\n";

interface ClusterConfig {
  readonly networking?: Readonly<Record<string, unknown>>;
  readonly kubeadmConfigPatches?: readonly string[];
}

/** The configuration with the pod network of the node image, which brings its own CNI plugin. */
export function adapted<Config extends ClusterConfig>(config: Config, podSubnet: string, hasCgroup1: boolean) {
  const networking = { ...config.networking, disableDefaultCNI: true, podSubnet };
  const patches = [...(config.kubeadmConfigPatches ?? []), ...(hasCgroup1 ? [allowCgroup1] : [])];
  return { ...config, networking, ...(patches.length > 0 && { kubeadmConfigPatches: patches }) };
}

if (import.meta.main) {
  const [path = "", podSubnet = ""] = process.argv.slice(2);
  // Written by this project, and validated by kind.
  const config = parse(readFileSync(path, "utf8")) as ClusterConfig;
  process.stdout.write(stringify(adapted(config, podSubnet, statfsSync("/sys/fs/cgroup").type !== cgroup2)));
}
