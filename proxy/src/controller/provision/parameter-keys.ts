/** The objects that parameters configure. */
import type { KubeObject } from "../../kube/object.ts";

/** The keys of a ConfigMap of parameters. */
export const parameterKeys = [
  "deployment",
  "statefulSet",
  "persistentVolumeClaim",
  "service",
  "serviceAccount",
  "podDisruptionBudget",
  "horizontalPodAutoscaler",
] as const;

/** A key of a ConfigMap of parameters. */
export type ParameterKey = (typeof parameterKeys)[number];

/** The fields to merge over each object, by key. */
export type Parameters = Readonly<Partial<Record<ParameterKey, KubeObject>>>;
