/** Namespace (core v1): only its labels are used, by listeners that select namespaces by label. */
import * as z from "zod";
import { clusterMetadata } from "./metadata.ts";
import type { Immutable } from "./schema.ts";

/** Schema of a Namespace. */
export const namespaceSchema = z.object({
  apiVersion: z.literal("v1"),
  kind: z.literal("Namespace"),
  metadata: clusterMetadata,
});

/** A parsed Namespace. */
export type Namespace = Immutable<z.output<typeof namespaceSchema>>;
