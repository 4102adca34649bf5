/**
 * What all answers of the admin server are made of. Every shape is written once, as a zod schema: from it come the type
 * that the server fills in, the check at the door of whoever reads an answer, and the JSON Schema. Readers let pass
 * fields that they do not know, so that an older reader understands a newer server.
 */
import * as z from "zod";

/** What a schema's output looks like to everyone: nobody changes an answer. */
export type Immutable<T> = T extends readonly (infer Item)[]
  ? readonly Immutable<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Immutable<T[Key]> }
    : T;

/** A whole number from 0 on. */
export const count = z.int().min(0);

/** Wall time in RFC 3339, UTC, with milliseconds. */
export const timestamp = z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

/** A namespaced object. */
export const objectName = z.object({ namespace: z.string(), name: z.string() });

/**
 * A text that a client chose and that may be a secret, such as the key of a limit. Of a secret only a fingerprint is
 * shown: `sha256:` with the first 8 hexadecimal digits of the SHA-256 of its first 64 bytes, then `…` and its last four
 * characters where it has at least 16. So an operator who knows a key finds it, and who does not know it learns nothing.
 */
export const shownText = z
  .object({
    text: z.string().describe("The text itself, at most 64 bytes of it; of a secret its fingerprint."),
    isSecret: z.boolean().describe("Whether the text is a fingerprint."),
  })
  .describe("A text of a client's, shown as a fingerprint where it may be a secret.");
export type ShownText = Immutable<z.output<typeof shownText>>;

/** What is wrong with some input. */
export const problemSchema = z
  .object({
    message: z.string().describe("What was attempted, what was found and what is accepted."),
    resource: z.string().optional().describe("`Kind namespace/name`."),
    path: z.string().optional().describe("The field, as `spec.traffic.rateLimit.local[0].unit`."),
    location: z
      .object({ file: z.string(), line: z.int().min(1), column: z.int().min(1) })
      .optional()
      .describe("Where its text stands, in file mode."),
  })
  .describe("One fault of the configuration.");

/** A condition of a status (Kubernetes API conventions). */
export const conditionSchema = z.object({
  type: z.string(),
  status: z.enum(["True", "False", "Unknown"]),
  reason: z.string(),
  message: z.string(),
  observedGeneration: count.optional().describe("Generation of the object that was judged; absent in file mode."),
});
export type Condition = Immutable<z.output<typeof conditionSchema>>;
