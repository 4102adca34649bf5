/** What every Kubernetes object has around its `spec`. */
import * as z from "zod";
import { defaultNamespace, gatewayGroup } from "./names.ts";
import { anyText, integer, leaf, namespaceName, objectName, strictObject, textMap } from "./schema.ts";

const rfc3339 = leaf<string>(
  "a time such as 2026-01-31T12:00:00Z",
  (value) => typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value)),
);

// Kubernetes has many more fields here, and none of them concerns us: they are dropped.
const commonMetadata = {
  name: objectName,
  labels: textMap.default({}),
  generation: integer(0, Number.MAX_SAFE_INTEGER).optional(),
  /** The object's own, unlike that of any other of its name before or after. */
  uid: anyText.optional(),
  creationTimestamp: rfc3339.optional(),
};

/** Metadata of an object that lives in a namespace. */
export const namespacedMetadata = z.object({
  ...commonMetadata,
  namespace: namespaceName.default(defaultNamespace),
});

/** Metadata of an object of the whole cluster. */
export const clusterMetadata = z.object(commonMetadata);

const readable = {
  labels: textMap.catch({}),
  generation: commonMetadata.generation.catch(undefined),
  uid: commonMetadata.uid.catch(undefined),
  creationTimestamp: commonMetadata.creationTimestamp.catch(undefined),
};

/** Metadata of an object that is refused, where name and namespace at least are sound. */
export const readableMetadata = namespacedMetadata.extend(readable);

/** The same of an object of the whole cluster. */
export const readableClusterMetadata = clusterMetadata.extend(readable);

/**
 * How to read what is left of an object that is refused.
 *
 * @param parts `metadata` and `spec`, as they stay in force; where they cannot be read either, nothing is left.
 */
export function remainsReader<Kind extends string, Parts extends z.ZodType<object>>(kind: Kind, parts: Parts) {
  return (value: unknown) => {
    const read = parts.safeParse(value);
    return read.success ? { apiVersion: `${gatewayGroup}/v1`, kind, ...read.data } : undefined;
  };
}

/**
 * An object of the Gateway API or of ours: no unknown field, except in metadata and status.
 *
 * @param apiVersions all that are read, the preferred one first.
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

/** Versions in which the Gateway API serves its stable kinds. */
export const gatewayApiVersions = [`${gatewayGroup}/v1`, `${gatewayGroup}/v1beta1`] as const;
