/** The metadata and the outer fields of every Kubernetes object. */
import * as z from "zod";
import { defaultNamespace, gatewayGroup } from "./names.ts";
import { anyText, integer, leaf, namespaceName, objectName, strictObject, textMap } from "./schema.ts";

const rfc3339 = leaf<string>(
  "a time such as 2026-01-31T12:00:00Z",
  (value) => typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value)),
);

/**
 * The schema of labels, of which only these stay. Anyone may give an object thousands of labels, up to its whole size,
 * and every process keeps every object.
 */
export function labelsOf(...keys: readonly string[]) {
  return textMap
    .transform((all) =>
      Object.fromEntries(keys.flatMap((key) => (Object.hasOwn(all, key) ? [[key, all[key] ?? ""]] : []))),
    )
    .default({});
}

// Kubernetes has many more fields here. The gateway uses none of them, and the parser drops them.
const commonMetadata = {
  name: objectName,
  labels: labelsOf(),
  generation: integer(0, Number.MAX_SAFE_INTEGER).optional(),
  /** Unique among all objects of the same name over time. */
  uid: anyText.optional(),
  creationTimestamp: rfc3339.optional(),
};

/** Metadata of a namespaced object. */
export const namespacedMetadata = z.object({
  ...commonMetadata,
  namespace: namespaceName.default(defaultNamespace),
});

/** Metadata of an object of the whole cluster. */
export const clusterMetadata = z.object(commonMetadata);

const readable = {
  labels: commonMetadata.labels.catch({}),
  generation: commonMetadata.generation.catch(undefined),
  uid: commonMetadata.uid.catch(undefined),
  creationTimestamp: commonMetadata.creationTimestamp.catch(undefined),
};

/** Metadata of a rejected object, where at least name and namespace are valid. */
export const readableMetadata = namespacedMetadata.extend(readable);

/** The same for an object of the whole cluster. */
export const readableClusterMetadata = clusterMetadata.extend(readable);

/**
 * Builds a reader for the remains of a rejected object.
 *
 * @param parts the schema of the `metadata` and `spec` that stay in force. The reader returns undefined where they are
 *   invalid too.
 */
export function remainsReader<Kind extends string, Parts extends z.ZodType<object>>(kind: Kind, parts: Parts) {
  return (value: unknown) => {
    const read = parts.safeParse(value);
    return read.success ? { apiVersion: `${gatewayGroup}/v1`, kind, ...read.data } : undefined;
  };
}

/**
 * Schema of an object of the Gateway API or of this gateway: no unknown fields, except in metadata and status.
 *
 * @param apiVersions the accepted versions, the preferred one first.
 */
export function strictResource<Kind extends string, Metadata extends z.ZodType, Spec extends z.ZodType>(resource: {
  apiVersions: readonly [string, ...string[]];
  kind: Kind;
  metadata: Metadata;
  spec: Spec;
}) {
  return strictObject({
    apiVersion: z.enum(resource.apiVersions),
    kind: z.literal(resource.kind),
    metadata: resource.metadata,
    spec: resource.spec,
    status: z.unknown().optional(),
  });
}

/** The versions of the stable kinds of the Gateway API. */
export const gatewayApiVersions = [`${gatewayGroup}/v1`, `${gatewayGroup}/v1beta1`] as const;
