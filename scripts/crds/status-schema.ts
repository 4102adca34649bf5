/**
 * The schema of the status of our kinds. Only the controller writes it, so the parser has no schema for it. Its types
 * are in `proxy/src/api/status.ts`.
 */
import { maxSelectedSecrets } from "../../proxy/src/api/selected-secrets.ts";
import type { JsonSchema } from "./structural-schema.ts";

/** `metav1.Condition`, with its bounds. */
const condition: JsonSchema = {
  description: "One observation about the object.",
  type: "object",
  required: ["lastTransitionTime", "message", "reason", "status", "type"],
  properties: {
    type: {
      description: "The type of the condition.",
      type: "string",
      pattern:
        "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
      maxLength: 316,
    },
    status: { description: "The status of the condition.", type: "string", enum: ["True", "False", "Unknown"] },
    reason: {
      description: "The reason in CamelCase, for programs.",
      type: "string",
      pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
      minLength: 1,
      maxLength: 1024,
    },
    message: { description: "The reason, for people.", type: "string", maxLength: 32_768 },
    observedGeneration: {
      description: "metadata.generation of the object that the condition describes.",
      type: "integer",
      format: "int64",
      minimum: 0,
    },
    lastTransitionTime: {
      description: "The last time at which status changed.",
      type: "string",
      format: "date-time",
    },
  },
};

const conditions: JsonSchema = {
  description: "The conditions of the object, one of each type.",
  type: "array",
  maxItems: 8,
  items: condition,
  "x-kubernetes-list-type": "map",
  "x-kubernetes-list-map-keys": ["type"],
};

const name: JsonSchema = { type: "string", minLength: 1, maxLength: 253 };

const ancestorRef: JsonSchema = {
  description: "The target that the conditions describe.",
  type: "object",
  required: ["name"],
  properties: {
    group: { ...name, minLength: 0, description: "Group of the target." },
    kind: { ...name, maxLength: 63, description: "Kind of the target." },
    namespace: { ...name, maxLength: 63, description: "Namespace of the target." },
    name: { ...name, description: "Name of the target." },
    sectionName: { ...name, description: "The rule or listener of the target." },
    port: { type: "integer", minimum: 1, maximum: 65_535, description: "The port of the target." },
  },
};

/** `PolicyStatus` of the Gateway API (GEP-713), and a summary for `kubectl get`. */
export const policyStatus: JsonSchema = {
  description: "The status of the policy.",
  type: "object",
  properties: {
    summary: {
      description: "The policy in a few words, as `kubectl get` shows it.",
      type: "object",
      properties: {
        target: { description: "The targets.", type: "string", maxLength: 1024 },
        limits: { description: "The limits.", type: "string", maxLength: 1024 },
        accepted: { description: "Whether the policy is valid.", type: "string", maxLength: 64 },
        attached: {
          description: "Whether the policy is enforced, or for several targets, on how many.",
          type: "string",
          maxLength: 64,
        },
      },
    },
    selectedSecrets: {
      description: "Names of the Secrets that secretSelector selects. Proxies read these Secrets only.",
      type: "array",
      maxItems: maxSelectedSecrets,
      "x-kubernetes-list-type": "atomic",
      items: { ...name, description: "Name of a Secret in the namespace of the policy." },
    },
    ancestors: {
      description: "The status at each target.",
      type: "array",
      // 16 of this controller, and as many of others.
      maxItems: 32,
      "x-kubernetes-list-type": "atomic",
      items: {
        description: "The status at a target, from one controller.",
        type: "object",
        required: ["ancestorRef", "controllerName"],
        properties: {
          ancestorRef,
          controllerName: {
            description: "The controller that wrote the status.",
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
  description: "The status of the Backend.",
  type: "object",
  properties: { conditions },
};
