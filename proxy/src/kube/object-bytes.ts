/**
 * Estimates the memory of parts of objects. Their length as JSON would be too little: an empty map has two characters,
 * and takes thirty times as much memory.
 */

/** Estimated bytes of values. */
export interface ContentSizes {
  /** Of a map or a list. */
  readonly map: number;
  /** Of a field of a map, or of an item of a list. */
  readonly field: number;
  /** Further bytes of each item of lists with these names; absent: none. */
  readonly items?: Readonly<Record<string, number>>;
}

/** Of a text beside its characters. */
const textBytes = 24;

/**
 * Returns about what a value takes.
 *
 * @param name of the field with the value.
 */
export function bytesIn(value: unknown, sizes: ContentSizes, name = ""): number {
  if (typeof value === "string") return textBytes + value.length;
  if (typeof value !== "object" || value === null) return 0;
  const { map, field, items = {} } = sizes;
  let bytes = map;
  if (Array.isArray(value)) {
    bytes += value.length * (field + (items[name] ?? 0));
    for (const item of value) bytes += bytesIn(item, sizes);
  } else {
    for (const key in value) bytes += field + bytesIn((value as Readonly<Record<string, unknown>>)[key], sizes, key);
  }
  return bytes;
}
