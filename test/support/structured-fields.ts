/** A parser of lists of items in structured fields (RFC 9651 §4.2.1), for strings and integers with parameters. */

export interface Item {
  readonly value: string | number;
  /** In the order of the field. */
  readonly parameters: ReadonlyMap<string, string | number>;
}

/** Throws if the text is no list of strings and integers. */
export function parseItems(text: string): readonly Item[] {
  const items: Item[] = [];
  let rest = text;
  const take = (pattern: RegExp): string | undefined => {
    const [found] = pattern.exec(rest) ?? [];
    if (found !== undefined) rest = rest.slice(found.length);
    return found;
  };
  const bareItem = (): string | number => {
    const quoted = take(/^"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"/);
    if (quoted !== undefined) return quoted.slice(1, -1).replaceAll(/\\(.)/g, "$1");
    const integer = take(/^-?\d{1,15}(?![\d.])/);
    if (integer === undefined) throw new Error(`no string and no integer at "${rest}" of "${text}"`);
    return Number(integer);
  };
  for (;;) {
    const value = bareItem();
    const parameters = new Map<string, string | number>();
    while (take(/^; */) !== undefined) {
      const key = take(/^[a-z*][a-z0-9_.*-]*/);
      if (key === undefined || take(/^=/) === undefined) throw new Error(`no parameter at "${rest}" of "${text}"`);
      parameters.set(key, bareItem());
    }
    items.push({ value, parameters });
    if (rest === "") return items;
    if (take(/^[ \t]*,[ \t]*/) === undefined || rest === "") throw new Error(`no item at "${rest}" of "${text}"`);
  }
}
