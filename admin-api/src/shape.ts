/**
 * The parts of all responses of the admin server. Each shape is written once, as a zod schema. From it come the type of
 * the response, the validation in clients, and the JSON Schema. Clients ignore unknown fields, so that an older client
 * understands a newer server.
 */
import * as z from "zod";

/** The output type of a schema, read-only at all levels. */
export type Immutable<T> = T extends readonly (infer Item)[]
  ? readonly Immutable<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Immutable<T[Key]> }
    : T;

/** A whole number, 0 or more. */
export const count = z.int().min(0);

/** Wall time in RFC 3339, UTC, with milliseconds. */
export const timestamp = z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

/** The name of a namespaced object. */
export const objectName = z.object({ namespace: z.string(), name: z.string() });

/**
 * A text that a client chose and that may be a secret, such as the key of a limit. A secret is shown as a fingerprint:
 * `sha256:` with the first 8 hexadecimal digits of the SHA-256 of its first 64 bytes, then `…` and its last four
 * characters if it has at least 16. So an operator who knows a key finds it, and one who does not learns nothing.
 */
export const redactedText = z
  .object({
    text: z.string().describe("The first 64 bytes of the text, or the fingerprint of a secret."),
    isSecret: z.boolean().describe("Whether the text is a fingerprint."),
  })
  .describe("A text from a client, shown as a fingerprint if it may be a secret.");
/** A text from a client, shown as a fingerprint if it may be a secret. */
export type RedactedText = Immutable<z.output<typeof redactedText>>;

/** One problem of the configuration. */
export const problemSchema = z
  .object({
    message: z.string().describe("What was attempted, what was found and what is accepted."),
    resource: z.string().optional().describe("`Kind namespace/name`."),
    path: z.string().optional().describe("The field, such as `spec.traffic.rateLimit.local[0].unit`."),
    location: z
      .object({ file: z.string(), line: z.int().min(1), column: z.int().min(1) })
      .optional()
      .describe("Its position in the file, in file mode."),
  })
  .describe("One problem of the configuration.");

/** A condition of a status (Kubernetes API conventions). */
export const conditionSchema = z.object({
  type: z.string(),
  status: z.enum(["True", "False", "Unknown"]),
  reason: z.string(),
  message: z.string(),
  observedGeneration: count.optional().describe("Generation of the object that was validated; absent in file mode."),
});
/** A condition of a status (Kubernetes API conventions). */
export type Condition = Immutable<z.output<typeof conditionSchema>>;

/** A descriptor of a global limit that does not apply to a request. */
export const descriptorNotApplied = z.object({
  descriptor: count.describe("Index of the descriptor in the policy's list, from 0."),
  because: z
    .enum(["when", "ifAbsent"])
    .describe("`when`: its condition is false; `ifAbsent`: it skips requests that lack the value of an entry."),
  when: z.string().optional().describe("The condition of the descriptor, if that is false."),
});
