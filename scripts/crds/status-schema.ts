/**
 * Status of our own kinds as the API server keeps it. Written by the controller alone, so the parser has no schema of
 * it; the types are in `proxy/src/api/status.ts`.
 */
import type { JsonSchema } from "./structural-schema.ts";

/** `metav1.Condition`, with its bounds. */
const condition: JsonSchema = {
  description: "One observation about the object.",
  type: "object",
  required: ["lastTransitionTime", "message", "reason", "status", "type"],
  properties: {
    type: {
      description: "What is observed.",
      type: "string",
      pattern:
        "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
      maxLength: 316,
    },
    status: { description: "Whether it is so.", type: "string", enum: ["True", "False", "Unknown"] },
    reason: {
      description: "Why, in one word.",
      type: "string",
      pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
      minLength: 1,
      maxLength: 1024,
    },
    message: { description: "Why, for people.", type: "string", maxLength: 32_768 },
    observedGeneration: {
      description: "metadata.generation of the object that was judged.",
      type: "integer",
      format: "int64",
      minimum: 0,
    },
    lastTransitionTime: {
      description: "When status last became another.",
      type: "string",
      format: "date-time",
    },
  },
};

const conditions: JsonSchema = {
  description: "What is observed about it, one of each type.",
  type: "array",
  maxItems: 8,
  items: condition,
  "x-kubernetes-list-type": "map",
  "x-kubernetes-list-map-keys": ["type"],
};

const name: JsonSchema = { type: "string", minLength: 1, maxLength: 253 };

const ancestorRef: JsonSchema = {
  description: "The target that the conditions are about.",
  type: "object",
  required: ["name"],
  properties: {
    group: { ...name, minLength: 0, description: "Group of the target." },
    kind: { ...name, maxLength: 63, description: "Kind of the target." },
    namespace: { ...name, maxLength: 63, description: "Namespace of the target." },
    name: { ...name, description: "Name of the target." },
    sectionName: { ...name, description: "The rule or listener of the target that is meant." },
    port: { type: "integer", minimum: 1, maximum: 65_535, description: "The port of the target that is meant." },
  },
};

/** `PolicyStatus` of the Gateway API (GEP-713), and a summary for `kubectl get`. */
export const policyStatus: JsonSchema = {
  description: "What became of the policy.",
  type: "object",
  properties: {
    summary: {
      description: "The policy in a few words, as `kubectl get` shows it.",
      type: "object",
      properties: {
        target: { description: "What it names.", type: "string", maxLength: 1024 },
        limits: { description: "How much it admits.", type: "string", maxLength: 1024 },
        accepted: { description: "Whether it is sound.", type: "string", maxLength: 64 },
        attached: {
          description: "Whether it is enforced: of several targets, on how many.",
          type: "string",
          maxLength: 64,
        },
      },
    },
    ancestors: {
      description: "What became of it at each target.",
      type: "array",
      // 16 of ours, and as many of other controllers.
      maxItems: 32,
      "x-kubernetes-list-type": "atomic",
      items: {
        description: "One target, as one controller judges it.",
        type: "object",
        required: ["ancestorRef", "controllerName"],
        properties: {
          ancestorRef,
          controllerName: {
            description: "Who judges.",
            type: "string",
            minLength: 1,
            maxLength: 253,
          },
          conditions,
        },
      },
    },
  },
};

export const backendStatus: JsonSchema = {
  description: "What became of the Backend.",
  type: "object",
  properties: { conditions },
};
