// Legal: the files beside the layers assemble them.
import { parts as filters } from "./filters/headers.ts";
import { parts as routing } from "./routing/table.ts";
import { parts as pipeline } from "./pipeline/dispatch.ts";
import { parts as upstream } from "./upstream/pool.ts";

export const parts = [filters, routing, pipeline, upstream];
