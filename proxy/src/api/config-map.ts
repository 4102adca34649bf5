/** ConfigMap (core v1): holds certificate authorities. */
import * as z from "zod";
import { namespacedMetadata } from "./metadata.ts";
import { type Immutable, textMap } from "./schema.ts";

/** Schema of a ConfigMap. */
export const configMapSchema = z.object({
  apiVersion: z.literal("v1"),
  kind: z.literal("ConfigMap"),
  metadata: namespacedMetadata,
  data: textMap.default({}),
});

/** A parsed ConfigMap. */
export type ConfigMap = Immutable<z.output<typeof configMapSchema>>;
