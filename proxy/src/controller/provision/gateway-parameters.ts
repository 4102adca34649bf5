/**
 * Validates the parameters of a Gateway. The author of a Gateway may have no right to create pods, so only some fields
 * are accepted: the number of proxies, their scheduling, their resources, and the exposure of their Service. The fields
 * that determine the programs in a pod and its identity are accepted in the parameters of the GatewayClass only.
 */
import { ownPorts } from "@gatewayproxy/runtime/operator-server-settings";
import * as z from "zod";
import { describeIssue, renderPath } from "../../api/issue.ts";
import { anyText, integer, labelSelector, leaf, list, portNumber, strictObject, textMap } from "../../api/schema.ts";
import { isObject, type KubeObject } from "../../kube/object.ts";
import { isPodLabel, isHarmlessKey, nothingSelected } from "./infrastructure.ts";
import type { ParameterKey } from "./parameter-keys.ts";

/** The maximum for one Gateway. A ResourceQuota bounds all Gateways of a namespace. */
const maxReplicas = 100;

const metadata = strictObject({ labels: textMap.optional(), annotations: textMap.optional() });

/**
 * Restricts keys, because other controllers read those of pods and of their owners, and some add containers and
 * volumes.
 */
const podMetadata = metadata.superRefine((value, context) => {
  for (const [field, map] of Object.entries(value)) {
    for (const key of Object.keys(map ?? {})) {
      if (isHarmlessKey(key)) continue;
      const accepted = "a key without a prefix, or with the prefix app.kubernetes.io or prometheus.io";
      context.addIssue({ code: "custom", path: [field, key], params: { accepted }, input: key });
    }
  }
});

/** Restricts labels, because Services and NetworkPolicies select pods by them. */
const templateMetadata = podMetadata.superRefine(({ labels = {} }, context) => {
  for (const key of Object.keys(labels)) {
    if (!isHarmlessKey(key) || isPodLabel(key, nothingSelected)) continue;
    const accepted = "a key by which pods are not commonly selected, such as team";
    context.addIssue({ code: "custom", path: ["labels", key], params: { accepted }, input: key });
  }
});

const quantity = leaf<string | number>("a quantity such as 500m or 1Gi", (value) =>
  typeof value === "number" ? value >= 0 : typeof value === "string" && /^\d+(\.\d+)?(m|k|[KMGT]i?)?$/.test(value),
);

const quantities = strictObject({
  cpu: quantity.optional(),
  memory: quantity.optional(),
  "ephemeral-storage": quantity.optional(),
});

const amount = leaf<string | number>("a whole number of at least 1, or a percentage of at least 1%", (value) =>
  typeof value === "number" ? Number.isInteger(value) && value > 0 : isPercentage(value),
);

function isPercentage(value: unknown): boolean {
  return typeof value === "string" && /^([1-9]\d?|100)%$/.test(value);
}

const someFields = leaf<KubeObject>("a map of fields", isObject);

/**
 * Has no namespaces, because a required anti-affinity to the pods of other namespaces would prevent their scheduling.
 */
const podAffinityTerm = strictObject({
  topologyKey: anyText,
  labelSelector: labelSelector.optional(),
  matchLabelKeys: list(anyText, { max: 16 }).optional(),
  mismatchLabelKeys: list(anyText, { max: 16 }).optional(),
});

const podAffinity = strictObject({
  requiredDuringSchedulingIgnoredDuringExecution: list(podAffinityTerm, { max: 16 }).optional(),
  preferredDuringSchedulingIgnoredDuringExecution: list(strictObject({ weight: integer(1, 100), podAffinityTerm }), {
    max: 16,
  }).optional(),
});

const scheduling = {
  nodeSelector: textMap.optional(),
  tolerations: list(
    strictObject({
      key: anyText.optional(),
      operator: z.enum(["Exists", "Equal"]).optional(),
      value: anyText.optional(),
      effect: z.enum(["NoSchedule", "PreferNoSchedule", "NoExecute"]).optional(),
      tolerationSeconds: integer(0, 86_400).optional(),
    }),
    { max: 32 },
  ).optional(),
  affinity: strictObject({
    nodeAffinity: someFields.optional(),
    podAffinity: podAffinity.optional(),
    podAntiAffinity: podAffinity.optional(),
  }).optional(),
  topologySpreadConstraints: list(
    strictObject({
      topologyKey: anyText,
      maxSkew: integer(1, 1_000).optional(),
      minDomains: integer(1, 1_000).optional(),
      whenUnsatisfiable: z.enum(["DoNotSchedule", "ScheduleAnyway"]).optional(),
      labelSelector: labelSelector.optional(),
      matchLabelKeys: list(anyText, { max: 16 }).optional(),
      nodeAffinityPolicy: z.enum(["Honor", "Ignore"]).optional(),
      nodeTaintsPolicy: z.enum(["Honor", "Ignore"]).optional(),
    }),
    { max: 16 },
  ).optional(),
};

/** The pod fields for scheduling. */
export const schedulingFields = Object.keys(scheduling);

const container = strictObject({
  name: z.enum(["proxy"]),
  resources: strictObject({ requests: quantities.optional(), limits: quantities.optional() }).optional(),
});

const publicPort = leaf<number>(
  `a whole number from 1 to 65535 that is not one of the proxy's own ports (${[...ownPorts.keys()].join(", ")})`,
  (value) => portNumber.safeParse(value).success && !ownPorts.has(value as number),
);

/** Service types, from the least exposed to the most. */
export const serviceTypes = ["ClusterIP", "NodePort", "LoadBalancer"] as const;

const schemas: Readonly<Partial<Record<ParameterKey, z.ZodType>>> = {
  deployment: strictObject({
    metadata: podMetadata.optional(),
    spec: strictObject({
      replicas: integer(0, maxReplicas).optional(),
      minReadySeconds: integer(0, 3_600).optional(),
      progressDeadlineSeconds: integer(1, 86_400).optional(),
      revisionHistoryLimit: integer(0, 100).optional(),
      strategy: strictObject({
        rollingUpdate: strictObject({ maxSurge: amount.optional(), maxUnavailable: amount.optional() }).optional(),
      }).optional(),
      template: strictObject({
        metadata: templateMetadata.optional(),
        spec: strictObject({
          ...scheduling,
          terminationGracePeriodSeconds: integer(10, 3_600).optional(),
          containers: list(container, { max: 1 }).optional(),
        }).optional(),
      }).optional(),
    }).optional(),
  }),
  statefulSet: strictObject({
    metadata: podMetadata.optional(),
    spec: strictObject({
      persistentVolumeClaimRetentionPolicy: strictObject({
        whenDeleted: z.enum(["Delete", "Retain"]).optional(),
        whenScaled: z.enum(["Delete", "Retain"]).optional(),
      }).optional(),
    }).optional(),
  }),
  persistentVolumeClaim: strictObject({
    metadata: podMetadata.optional(),
    spec: strictObject({
      resources: strictObject({ requests: strictObject({ storage: quantity.optional() }).optional() }).optional(),
      storageClassName: anyText.optional(),
    }).optional(),
  }),
  service: strictObject({
    metadata: metadata.optional(),
    spec: strictObject({
      type: z.enum(serviceTypes).optional(),
      clusterIP: z.enum(["None"]).optional(),
      ports: list(
        strictObject({
          port: publicPort,
          protocol: z.enum(["TCP", "UDP"]).optional(),
          nodePort: portNumber.optional(),
        }),
        { max: 128 },
      ).optional(),
      externalTrafficPolicy: z.enum(["Cluster", "Local"]).optional(),
      internalTrafficPolicy: z.enum(["Cluster", "Local"]).optional(),
      trafficDistribution: anyText.optional(),
      loadBalancerSourceRanges: list(anyText, { max: 1_000 }).optional(),
      allocateLoadBalancerNodePorts: z.boolean().optional(),
      sessionAffinity: z.enum(["None", "ClientIP"]).optional(),
      sessionAffinityConfig: someFields.optional(),
      ipFamilies: list(z.enum(["IPv4", "IPv6"]), { max: 2 }).optional(),
      ipFamilyPolicy: z.enum(["SingleStack", "PreferDualStack", "RequireDualStack"]).optional(),
    }).optional(),
  }),
  podDisruptionBudget: strictObject({
    metadata: podMetadata.optional(),
    // At least 1, because otherwise a node could not be drained. minAvailable could have the same effect.
    spec: strictObject({
      maxUnavailable: amount.optional(),
      unhealthyPodEvictionPolicy: z.enum(["IfHealthyBudget", "AlwaysAllow"]).optional(),
    }).optional(),
  }),
  horizontalPodAutoscaler: strictObject({
    metadata: podMetadata.optional(),
    spec: strictObject({
      minReplicas: integer(1, maxReplicas).optional(),
      maxReplicas: integer(1, maxReplicas).optional(),
      metrics: list(someFields, { max: 16 }).optional(),
      behavior: someFields.optional(),
    }).optional(),
  }),
};

/** Returns the reason why a Gateway's parameters cannot have these fields, in one sentence; undefined if they can. */
export function gatewayParametersError(key: ParameterKey, fields: KubeObject): string | undefined {
  const advice = "other fields can be set in the parameters of the GatewayClass";
  const schema = schemas[key];
  if (schema === undefined) return `${key} cannot be set by a Gateway; ${advice}`;
  const parsed = schema.safeParse(fields, { reportInput: true });
  if (parsed.success) return undefined;
  const errors = parsed.error.issues.slice(0, 5).map((issue) => {
    const { path, message } = describeIssue(issue, true);
    return `${renderPath([key, ...path])}: ${message}`;
  });
  return `${errors.join("; ")}; ${advice}`;
}
