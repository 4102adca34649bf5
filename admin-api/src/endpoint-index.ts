/** `GET /` with `accept: application/json`: the endpoints of the admin server. Also part of each 404 response. */
import * as z from "zod";
import type { Immutable } from "./shape.ts";

/** An endpoint of the admin server. */
export const endpointSchema = z.object({
  methods: z.array(z.enum(["GET", "POST"])),
  path: z.string(),
  query: z.string().describe("Its parameters, such as `seconds=N`; empty if there are none."),
  summary: z.string().describe("What it does, in one sentence."),
});
/** An endpoint of the admin server. */
export type Endpoint = Immutable<z.output<typeof endpointSchema>>;

/** The list of endpoints. */
export const endpointIndexSchema = z.object({ endpoints: z.array(endpointSchema) });
/** The list of endpoints. */
export type EndpointIndex = Immutable<z.output<typeof endpointIndexSchema>>;
