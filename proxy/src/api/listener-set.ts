/** ListenerSet (Gateway API v1.7): listeners that another team attaches to a Gateway, where the Gateway allows it. */
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

/** Schema of a ListenerSet. */
export const listenerSetSchema = strictResource({
  apiVersions: gatewayApiVersions,
  kind: "ListenerSet",
  metadata: namespacedMetadata,
  spec: strictObject({ parentRef, listeners }),
});

/** A parsed ListenerSet; without listeners where only its remains are known (`rejectedListenerSet`). */
export type ListenerSet = Immutable<z.output<typeof listenerSetSchema>>;

/** Reads the remains of a rejected ListenerSet: its name and parent. Undefined where it does not name a parent. */
export const rejectedListenerSet = remainsReader(
  "ListenerSet",
  z.object({
    metadata: readableMetadata,
    spec: z.object({ parentRef }).transform((spec) => ({ ...spec, listeners: [] })),
  }),
);
