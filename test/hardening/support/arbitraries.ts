/** Random bytes that resemble real ones, for fuzzers. All text is latin1: one character is one byte. */
import fc from "fast-check";

/** One edit of some bytes. `at` and `length` are fractions of the whole, from 0 to 1, so that they fit any text. */
interface Mutation {
  readonly kind: "delete" | "duplicate" | "insert" | "replace" | "flip" | "cut";
  readonly at: number;
  readonly length: number;
  readonly token: string;
}

/**
 * Texts that result from a few edits of a text of `seeds`.
 *
 * @param tokens texts that edits insert, beside random bytes
 */
export function mutated(seeds: readonly string[], tokens: readonly string[]): fc.Arbitrary<string> {
  const part = fc.nat(10_000).map((n) => n / 10_000);
  const mutation = fc.record<Mutation>({
    kind: fc.constantFrom("delete", "duplicate", "insert", "insert", "replace", "replace", "flip", "cut"),
    at: part,
    length: fc.nat(12),
    token: fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...tokens) }, randomBytes(6)),
  });
  return fc
    .tuple(fc.constantFrom(...seeds), fc.array(mutation, { maxLength: 5 }))
    .map(([seed, mutations]) => mutations.reduce(mutate, seed));
}

/** Any bytes at all. */
export function randomBytes(maxLength: number): fc.Arbitrary<string> {
  return fc.uint8Array({ maxLength }).map((bytes) => Buffer.from(bytes).toString("latin1"));
}

/** Where to split some bytes: sizes of chunks, used in turn. Mostly small, sometimes byte by byte. */
export const chunkSizes: fc.Arbitrary<readonly number[]> = fc.array(fc.integer({ min: 1, max: 300 }), {
  minLength: 1,
  maxLength: 8,
});

/** Splits `bytes` into chunks of these sizes, in turn. */
export function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const size = sizes[index % sizes.length] ?? 1;
    chunks.push(bytes.subarray(at, at + size));
    at += size;
  }
  return chunks;
}

function mutate(text: string, { kind, at, length, token }: Mutation): string {
  const start = Math.floor(at * text.length);
  const end = Math.min(text.length, start + length + 1);
  const [before, middle, after] = [text.slice(0, start), text.slice(start, end), text.slice(end)];
  switch (kind) {
    case "delete":
      return before + after;
    case "duplicate":
      return before + middle + middle + after;
    case "insert":
      return before + token + middle + after;
    case "replace":
      return before + token + after;
    case "flip":
      return before + String.fromCharCode((text.charCodeAt(start) || 0) ^ (1 << (length & 7))) + text.slice(start + 1);
    case "cut":
      return before;
  }
}
