/** ListenerSet (Gateway API v1.6): listeners that another team adds to a Gateway that allows it. */
import * as z from "zod";
import { listeners } from "./listener.ts";
import { gatewayApiVersions, namespacedMetadata, readableMetadata, remainsReader, strictResource } from "./metadata.ts";
import { gatewayGroup } from "./names.ts";
import { group, type Immutable, kindName, namespaceName, strictObject, targetName } from "./schema.ts";

const parentRef = strictObject({
  group: group.default(gatewayGroup),
  kind: kindName.default("Gateway"),
  namespace: namespaceName.optional(),
  name: targetName,
});

export const listenerSetSchema = strictResource({
  apiVersions: gatewayApiVersions,
  kind: "ListenerSet",
  metadata: namespacedMetadata,
  spec: strictObject({ parentRef, listeners }),
});

/** Without listeners where it is refused (see `refusedListenerSet`). */
export type ListenerSet = Immutable<z.output<typeof listenerSetSchema>>;

/** What is left of a set that is refused: that it is there, and its Gateway. Undefined where it does not name one. */
export const refusedListenerSet = remainsReader(
  "ListenerSet",
  z.object({
    metadata: readableMetadata,
    spec: z.object({ parentRef }).transform((spec) => ({ ...spec, listeners: [] })),
  }),
);
