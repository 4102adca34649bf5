/** ConfigMap (core v1): certificates of authorities. */
import * as z from "zod";
import { namespacedMetadata } from "./metadata.ts";
import { type Immutable, textMap } from "./schema.ts";

export const configMapSchema = z.object({
  apiVersion: z.literal("v1"),
  kind: z.literal("ConfigMap"),
  metadata: namespacedMetadata,
  data: textMap.default({}),
});

export type ConfigMap = Immutable<z.output<typeof configMapSchema>>;
