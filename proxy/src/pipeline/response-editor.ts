/** The edits of responses that the filters of a rule specify. */
import type { CompiledFilters } from "../filters/compile-filters.ts";
import { setCorsHeaders } from "../filters/cors.ts";
import type { HeaderEditor } from "../filters/header-edits.ts";
import type { CompiledRule } from "./compiled-rule.ts";

/**
 * Returns the editor of a response; undefined if there is nothing to edit. The fields of CORS come first, so that a
 * ResponseHeaderModifier can replace them.
 *
 * @param rawHeaders of the request; names and values alternate.
 */
export function responseEditor(
  { cors }: CompiledRule,
  { editResponse }: CompiledFilters,
  rawHeaders: readonly string[],
): HeaderEditor | undefined {
  if (cors === undefined) return editResponse;
  return (headers) => {
    setCorsHeaders(cors, rawHeaders, headers);
    editResponse?.(headers);
  };
}
