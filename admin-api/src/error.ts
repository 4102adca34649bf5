/** Errors of the admin server: the body of every response with a status of 400 or more. */
import * as z from "zod";
import type { Immutable } from "./shape.ts";

/** The body of an error response. */
export const adminErrorSchema = z.object({
  error: z.string().describe("What was requested and why it failed."),
  hint: z.string().describe("What is accepted."),
});
/** The body of an error response. */
export type AdminError = Immutable<z.output<typeof adminErrorSchema>>;
