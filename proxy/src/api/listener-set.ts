/** ListenerSet (Gateway API v1.6): listeners that another team adds to a Gateway that allows it. */
import type * as z from "zod";
import { listeners } from "./listener.ts";
import { gatewayApiVersions, namespacedMetadata, strictResource } from "./metadata.ts";
import { gatewayGroup } from "./names.ts";
import { group, type Immutable, kindName, namespaceName, strictObject, targetName } from "./schema.ts";

export const listenerSetSchema = strictResource({
  apiVersions: gatewayApiVersions,
  kind: "ListenerSet",
  metadata: namespacedMetadata,
  spec: strictObject({
    parentRef: strictObject({
      group: group.default(gatewayGroup),
      kind: kindName.default("Gateway"),
      namespace: namespaceName.optional(),
      name: targetName,
    }),
    listeners,
  }),
});

export type ListenerSet = Immutable<z.output<typeof listenerSetSchema>>;
