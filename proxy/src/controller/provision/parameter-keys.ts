/** The objects that parameters can change. */
import type { KubeObject } from "../../kube/object.ts";

/** The keys of a ConfigMap of parameters. */
export const parameterKeys = [
  "deployment",
  "service",
  "serviceAccount",
  "podDisruptionBudget",
  "horizontalPodAutoscaler",
] as const;

export type ParameterKey = (typeof parameterKeys)[number];

/** The fields to merge over each object. */
export type Parameters = Readonly<Partial<Record<ParameterKey, KubeObject>>>;
