/**
 * Volumes on which proxies keep the counters of long windows. Parameters with `persistentVolumeClaim` make the proxies
 * of a Gateway a StatefulSet: each has a volume of its own, which its successor of the same name continues with. Pure.
 */
import { fieldsOf, type KubeObject } from "../../kube/object.ts";
import { mergeObject } from "./merge.ts";
import type { ParameterKey, Parameters } from "./parameter-keys.ts";

/** The name of the volume in pods, and the first part of the names of claims. */
const volumeName = "state";

const mountPath = "/var/lib/gateway-proxy";

/**
 * A directory of the volume, for the proxy's setting `--state-dir`. Its permissions are the proxy's own, whatever those
 * of the volume are.
 */
const stateDirectory = `${mountPath}/counters`;

/** Whether proxies with these parameters keep their counters on volumes. */
export function hasVolumes(parameters: readonly Parameters[]): boolean {
  return parameters.some(({ persistentVolumeClaim }) => persistentVolumeClaim !== undefined);
}

/** Fields of a Deployment's spec that a StatefulSet does not have. */
const deploymentFields: ReadonlySet<string> = new Set(["strategy", "progressDeadlineSeconds", "paused"]);

/** Returns the parameters of a StatefulSet: those of the Deployment that it replaces, and its own after them. */
export function statefulSetParameters(parameters: readonly Parameters[]): readonly KubeObject[] {
  const shared = parameters.map(({ deployment = {} }) => {
    const spec = Object.entries(fieldsOf(deployment["spec"])).filter(([name]) => !deploymentFields.has(name));
    return { ...deployment, spec: Object.fromEntries(spec) };
  });
  return [...shared, ...patchesOf(parameters, "statefulSet")];
}

/**
 * Returns a pod spec with the volume and the directory of the counters.
 *
 * @param group The group of the proxy's user. Files of the volume belong to it.
 */
export function withVolume(pod: KubeObject, group: number): KubeObject {
  return mergeObject(pod, {
    // A volume whose root belongs to the group already is not searched for other files, which takes long.
    securityContext: { fsGroup: group, fsGroupChangePolicy: "OnRootMismatch" },
    containers: [
      {
        name: "proxy",
        env: [{ name: "STATE_DIR", value: stateDirectory }],
        volumeMounts: [{ name: volumeName, mountPath }],
      },
    ],
  });
}

/**
 * Returns the fields of a StatefulSet's spec that a Deployment does not have.
 *
 * @param service The name of the Service of the pods.
 * @param labels Of the claims, by which users find them.
 */
export function volumeFields(
  parameters: readonly Parameters[],
  service: string,
  labels: Readonly<Record<string, string>>,
): KubeObject {
  const base: KubeObject = {
    metadata: { labels },
    spec: {
      accessModes: ["ReadWriteOnce"],
      volumeMode: "Filesystem",
      // A file of 1,000,000 counters has 70 MB at first and 210 MB before another replaces it.
      resources: { requests: { storage: "1Gi" } },
    },
  };
  const claim = patchesOf(parameters, "persistentVolumeClaim").reduce(mergeObject, base);
  const metadata = { ...fieldsOf(claim["metadata"]), name: volumeName };
  return {
    serviceName: service,
    // The replicas do not depend on each other.
    podManagementPolicy: "Parallel",
    updateStrategy: { type: "RollingUpdate" },
    persistentVolumeClaimRetentionPolicy: { whenDeleted: "Delete", whenScaled: "Retain" },
    volumeClaimTemplates: [{ ...claim, metadata }],
  };
}

function patchesOf(parameters: readonly Parameters[], key: ParameterKey): readonly KubeObject[] {
  return parameters.map((each) => each[key] ?? {});
}
