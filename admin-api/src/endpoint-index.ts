/** `GET /` with `accept: application/json`: what the admin server has to offer. Also part of each 404. */
import * as z from "zod";
import type { Immutable } from "./shape.ts";

export const endpointSchema = z.object({
  methods: z.array(z.enum(["GET", "POST"])),
  path: z.string(),
  query: z.string().describe("Its parameters, as `seconds=N`; empty for none."),
  summary: z.string().describe("What it does, in one sentence."),
});
export type Endpoint = Immutable<z.output<typeof endpointSchema>>;

export const endpointIndexSchema = z.object({ endpoints: z.array(endpointSchema) });
export type EndpointIndex = Immutable<z.output<typeof endpointIndexSchema>>;
