/** Converts YAML nodes to plain values: maps, lists and scalars, with aliases resolved within bounds. */
import { type Alias, isAlias, isMap, isNode, isScalar, isSeq, type Pair } from "yaml";

/** The deepest nesting of a document, far more than any resource has. */
export const maxDepth = 64;

/** The message for a text that is nested deeper. */
export const tooDeep = `text is nested deeper than ${maxDepth} levels`;

/** Thrown for a node that cannot be converted. */
export class UnusableNode extends Error {
  readonly offset: number | undefined;

  constructor(message: string, node: unknown) {
    super(message);
    this.offset = isNode(node) ? node.range?.[0] : undefined;
  }
}

interface ReadValue {
  readonly value: unknown;
  /** The number of values in it, including itself; those of aliases count each time. */
  readonly count: number;
  /** The levels of nested collections in it. */
  readonly depth: number;
  /** The fields of a map. */
  readonly fields?: ReadonlyMap<string, ReadValue>;
  /** The items of a list. */
  readonly items?: readonly ReadValue[];
}

/** Converts the nodes of one document. An alias yields the same object as its anchor. */
export class ValueReader {
  /** Values by anchor; undefined while the value is being read. */
  readonly #anchored = new Map<string, ReadValue | undefined>();
  readonly #maxAliasedValues: number;
  #aliased = 0;

  constructor(maxAliasedValues: number) {
    this.#maxAliasedValues = maxAliasedValues;
  }

  /** @throws UnusableNode */
  read(node: unknown, levels: number): ReadValue {
    if (isAlias(node)) return this.#readAlias(node, levels);
    if (isScalar(node)) return this.#anchor(node.anchor, { value: node.value, count: 1, depth: 0 });
    if (!isMap(node) && !isSeq(node)) return { value: null, count: 1, depth: 0 };
    if (levels === 0) throw new UnusableNode(tooDeep, node);
    this.#anchor(node.anchor, undefined);
    const read = isMap(node) ? this.#readMap(node.items, levels - 1) : this.#readList(node.items, levels - 1);
    return this.#anchor(node.anchor, read);
  }

  #anchor<T extends ReadValue | undefined>(anchor: string | undefined, read: T): T {
    if (anchor !== undefined && anchor !== "") this.#anchored.set(anchor, read);
    return read;
  }

  #readAlias(alias: Alias, levels: number): ReadValue {
    if (!this.#anchored.has(alias.source)) {
      const message = `invalid YAML: Unresolved alias (the anchor must be set before the alias): ${alias.source}`;
      throw new UnusableNode(message, alias);
    }
    const read = this.#anchored.get(alias.source);
    // An alias to a node that contains it would never end.
    if (read === undefined || read.depth > levels) throw new UnusableNode(tooDeep, alias);
    this.#spend(read.count, alias);
    return read;
  }

  #spend(values: number, node: unknown): void {
    this.#aliased += values;
    if (this.#aliased <= this.#maxAliasedValues) return;
    throw new UnusableNode(`invalid YAML: aliases stand for more than ${this.#maxAliasedValues} values`, node);
  }

  #readList(items: readonly unknown[], levels: number): ReadValue {
    const read = items.map((item) => this.read(item, levels));
    return { value: read.map(({ value }) => value), items: read, ...measureOf(read) };
  }

  #readMap(items: readonly Pair[], levels: number): ReadValue {
    const fields = new Map<string, ReadValue>();
    const own = new Set<string>();
    for (const { key, value: node } of items) {
      if (isMergeKey(key)) {
        // Fields of the map itself win, then those of the map that is merged first (YAML 1.1 merge keys).
        for (const [name, field] of this.#mergedFields(node, levels)) if (!fields.has(name)) fields.set(name, field);
        continue;
      }
      const { value: name } = this.read(key, levels);
      if (typeof name === "object" && name !== null) {
        throw new UnusableNode("invalid YAML: a key must be a text, not a collection", key);
      }
      const text = name === null ? "" : `${name as string | number | boolean}`;
      if (own.has(text)) throw new UnusableNode("invalid YAML: Map keys must be unique", key);
      own.add(text);
      fields.set(text, this.read(node, levels));
    }
    const value: unknown = Object.fromEntries(Array.from(fields, ([name, field]) => [name, field.value]));
    return { value, fields, ...measureOf([...fields.values()]) };
  }

  /** Returns the fields of the map, or of the list of maps, that a merge key names. */
  #mergedFields(node: unknown, levels: number): readonly (readonly [string, ReadValue])[] {
    const read = this.read(node, levels);
    return (read.items ?? [read]).flatMap(({ fields }) => {
      if (fields === undefined) throw new UnusableNode("invalid YAML: Merge sources must be maps or map aliases", node);
      this.#spend(fields.size, node);
      return [...fields];
    });
  }
}

function measureOf(read: readonly ReadValue[]): Pick<ReadValue, "count" | "depth"> {
  return read.reduce((sum, { count, depth }) => ({ count: sum.count + count, depth: Math.max(sum.depth, depth + 1) }), {
    count: 1,
    depth: 1,
  });
}

function isMergeKey(key: unknown): boolean {
  if (!isScalar(key)) return false;
  const { type = "PLAIN", value } = key;
  return type === "PLAIN" && (value === "<<" || (typeof value === "symbol" && value.description === "<<"));
}
