/** ListenerSet (Gateway API v1.6): listeners that another team adds to a Gateway that allows it. */
import * as z from "zod";
import { listeners } from "./listener.ts";
import { gatewayApiVersions, namespacedMetadata, readableMetadata, strictResource } from "./metadata.ts";
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
export function refusedListenerSet(value: unknown): ListenerSet | undefined {
  const parts = readableParts.safeParse(value).data;
  if (parts === undefined) return undefined;
  const { metadata, spec } = parts;
  return {
    apiVersion: `${gatewayGroup}/v1`,
    kind: "ListenerSet",
    metadata,
    spec: { parentRef: spec.parentRef, listeners: [] },
  };
}

const readableParts = z.object({ metadata: readableMetadata, spec: z.object({ parentRef }) });
