/** Secret (core v1): API keys and certificates. Its values never appear in a message, a log or a dump. */
import * as z from "zod";
import { namespacedMetadata } from "./metadata.ts";
import { anyText, type Immutable, leaf, textMap } from "./schema.ts";

const base64 = leaf<string>(
  "base64 text (plain text belongs in stringData)",
  // Blanks are removed first: a pattern that allows them in two places takes quadratic time.
  (value) => typeof value === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test(value.replace(/\s/g, "")),
);

/** Schema of a Secret. */
export const secretSchema = z.object({
  apiVersion: z.literal("v1"),
  kind: z.literal("Secret"),
  metadata: namespacedMetadata.extend({ labels: textMap.default({}), annotations: textMap.default({}) }),
  type: anyText.optional(),
  data: z.record(z.string(), base64).default({}),
  /** Plain text; takes precedence over `data`, as in the Kubernetes API. */
  stringData: textMap.default({}),
});

/** A parsed Secret. */
export type Secret = Immutable<z.output<typeof secretSchema>>;

/** Returns the decoded value of one key, without leading and trailing whitespace; undefined where the key is absent. */
export function secretValue(secret: Secret, key: string): string | undefined {
  const plain = ownValue(secret.stringData, key);
  if (plain !== undefined) return plain.trim();
  const encoded = ownValue(secret.data, key);
  // `echo key | base64` encodes a line break too, which is invalid in a header value.
  return encoded === undefined ? undefined : Buffer.from(encoded, "base64").toString("utf8").trim();
}

function ownValue(map: Readonly<Record<string, string>>, key: string): string | undefined {
  return Object.hasOwn(map, key) ? map[key] : undefined;
}
