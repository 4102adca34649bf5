/** What the parser says to one object, as lines `path: message`; for tests of single rules. */
import { renderPath } from "../issue.ts";
import { parseResource } from "../parse-resource.ts";

/** Empty when the object is accepted. */
export function errorsOf(object: unknown): readonly string[] {
  const parsed = parseResource(object);
  if (parsed.kind === "resource") return [];
  if (parsed.kind === "foreign") return ["foreign"];
  return parsed.errors.map(({ path, message }) => (path.length === 0 ? message : `${renderPath(path)}: ${message}`));
}
