/**
 * The name that was probably meant, for references to objects that do not exist. A search looks at many names, and a route
 * may have thousands of references, so searches are remembered and bounded for each namespace and translation.
 */
import { suggestName } from "@gatewayproxy/runtime/suggest";

/** Of a namespace. One takes 0.1 ms. */
const mostSearches = 50;

export class NameHints {
  readonly #hints = new Map<string, string>();
  readonly #searches = new Map<string, number>();

  /**
   * ` (did you mean default/chat?)`, to follow a name in a sentence; the empty string without a near name, or when the
   * namespace has used up its searches.
   *
   * @param name `namespace/name` of an object of `kind` that does not exist.
   * @param known Names of the objects of the kind. Only those of the same namespace are suggested.
   */
  of(kind: string, name: string, known: Iterable<string>): string {
    const key = `${kind} ${name}`;
    const hint = this.#hints.get(key);
    if (hint !== undefined) return hint;
    const namespace = name.slice(0, name.indexOf("/"));
    const searches = this.#searches.get(namespace) ?? 0;
    if (searches === mostSearches) return "";
    this.#searches.set(namespace, searches + 1);
    const found = suggestName(name, known);
    this.#hints.set(key, found);
    return found;
  }
}
