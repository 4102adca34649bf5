/** Secret (core v1): keys of LLM providers. Its values never stand in a message, a log or a dump. */
import * as z from "zod";
import { namespacedMetadata } from "./metadata.ts";
import { anyText, type Immutable, leaf, textMap } from "./schema.ts";

const base64 = leaf<string>(
  "base64 text (plain text belongs in stringData)",
  // Without the blanks first: a pattern that allows them in two places takes the square of their number.
  (value) => typeof value === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test(value.replace(/\s/g, "")),
);

export const secretSchema = z.object({
  apiVersion: z.literal("v1"),
  kind: z.literal("Secret"),
  metadata: namespacedMetadata,
  type: anyText.optional(),
  data: z.record(z.string(), base64).default({}),
  /** Plain text; wins over `data`, as in the Kubernetes API. */
  stringData: textMap.default({}),
});

export type Secret = Immutable<z.output<typeof secretSchema>>;

/** The decoded value of one key, without blanks and line breaks around it; undefined when the key is absent. */
export function secretValue(secret: Secret, key: string): string | undefined {
  const plain = ownValue(secret.stringData, key);
  if (plain !== undefined) return plain.trim();
  const encoded = ownValue(secret.data, key);
  // `echo key | base64` encodes a line break too, which no header value may hold.
  return encoded === undefined ? undefined : Buffer.from(encoded, "base64").toString("utf8").trim();
}

function ownValue(map: Readonly<Record<string, string>>, key: string): string | undefined {
  return Object.hasOwn(map, key) ? map[key] : undefined;
}
