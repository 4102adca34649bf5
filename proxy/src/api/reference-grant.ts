/** ReferenceGrant (Gateway API v1.7): permits references from other namespaces to objects of its own. */
import type * as z from "zod";
import { gatewayApiVersions, namespacedMetadata, strictResource } from "./metadata.ts";
import { anyText, group, type Immutable, kindName, list, namespaceName, strictObject, targetName } from "./schema.ts";

/** Schema of a ReferenceGrant. */
export const referenceGrantSchema = strictResource({
  apiVersions: gatewayApiVersions,
  kind: "ReferenceGrant",
  metadata: namespacedMetadata.extend({ deletionTimestamp: anyText.optional() }),
  spec: strictObject({
    from: list(strictObject({ group, kind: kindName, namespace: namespaceName }), { min: 1, max: 16 }),
    to: list(strictObject({ group, kind: kindName, name: targetName.optional() }), { min: 1, max: 16 }),
  }),
});

/** A parsed ReferenceGrant. */
export type ReferenceGrant = Immutable<z.output<typeof referenceGrantSchema>>;
