/**
 * Suggests names for references to objects that do not exist. A search compares many names, and a route may have
 * thousands of references, so searches are cached, and bounded for each namespace and translation.
 */
import { suggestName } from "@gatewayproxy/runtime/suggest";

/** Maximum number of searches of a namespace. One takes 0.1 ms. */
const mostSearches = 50;

export class NameHints {
  readonly #hints = new Map<string, string>();
  readonly #searches = new Map<string, number>();

  /**
   * Returns ` (did you mean default/chat?)`, to follow a name in a sentence, or the empty string if no name is near or
   * the namespace has used up its searches.
   *
   * @param asking The namespace of the object that refers to the name. It pays for the search: the namespace of the
   *   name is the referrer's choice.
   * @param name `namespace/name` of an object of `kind` that does not exist.
   * @param known Names of the objects of the kind. Only those of the same namespace are suggested.
   */
  of(asking: string, kind: string, name: string, known: Iterable<string>): string {
    const key = `${kind} ${name}`;
    const hint = this.#hints.get(key);
    if (hint !== undefined) return hint;
    const searches = this.#searches.get(asking) ?? 0;
    if (searches === mostSearches) return "";
    this.#searches.set(asking, searches + 1);
    const found = suggestName(name, known);
    this.#hints.set(key, found);
    return found;
  }
}
