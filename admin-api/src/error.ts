/** How the admin server says no: the body of every answer with a status from 400 on. */
import * as z from "zod";
import type { Immutable } from "./shape.ts";

export const adminErrorSchema = z.object({
  error: z.string().describe("What was asked and why it was refused."),
  hint: z.string().describe("What is accepted."),
});
export type AdminError = Immutable<z.output<typeof adminErrorSchema>>;
