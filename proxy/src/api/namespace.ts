/** Namespace (core v1): its labels, by which listeners select namespaces, and whether it is being deleted. */
import * as z from "zod";
import { clusterMetadata } from "./metadata.ts";
import { anyText, type Immutable, textMap } from "./schema.ts";

/** Schema of a Namespace. */
export const namespaceSchema = z.object({
  apiVersion: z.literal("v1"),
  kind: z.literal("Namespace"),
  metadata: clusterMetadata.extend({ labels: textMap.default({}), deletionTimestamp: anyText.optional() }),
});

/** A parsed Namespace. */
export type Namespace = Immutable<z.output<typeof namespaceSchema>>;
