/**
 * Which counter: the fingerprint of an entry's identity and of its key's value, by which shared memory finds the
 * counter without any list of entries. So an edit elsewhere moves no counter, and all threads agree without talking.
 */
import { hash } from "node:crypto";
import { bucketOf, wordOf } from "@gatewayproxy/runtime/counter-memory";
import type { LocalLimit } from "../../ir/limit.ts";

/** Digest of an entry's identity, as latin1 text of 32 characters. */
export type EntryId = string;

export interface CounterId {
  /** The bucket of the table that holds the counter, if any does. */
  readonly bucket: number;
  /** The fingerprint, as four 32-bit words. */
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly d: number;
  /** Identity of the entry whose counter this is; equal for all values of its key. */
  readonly entry: EntryId;
  /** The key's value; undefined for the one counter of an entry without key, or of requests without a value. */
  readonly key: string | undefined;
}

/**
 * Identity of an entry, secret by the memory's `seed`. The key's expression is part of it: counters of one value under
 * two expressions are two counters.
 */
export function entryId(seed: string, limit: LocalLimit): EntryId {
  return hash("sha256", JSON.stringify([seed, limit.counter, limit.key]), "latin1");
}

/** What an operator sees of an entry's identity: 16 hexadecimal digits. */
export function entryLabel(entry: EntryId): string {
  return labelOfWords(wordOf(entry, 0), wordOf(entry, 4));
}

/** The same from the two words that a slot keeps. */
export function labelOfWords(first: number, second: number): string {
  return [first, second].map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}

/** Values are as long as the headers of a request may be; longer ones than this are hashed once for all entries. */
const longKeyLength = 256;
/** The digests of long values that came last. Headers of one request have room for few long values. */
const digestsOfLongKeys = new Map<string, string>();
const maxDigests = 16;

/** The counter of an entry for one value of its key, or the shared one, in a table of so many buckets. */
export function counterId(entry: EntryId, key: string | undefined, buckets: number): CounterId {
  // The entry's digest has a fixed length and is secret, so that no value can be mistaken for another.
  const digest = key === undefined ? entry : hash("sha256", entry + shortened(key), "latin1");
  return {
    bucket: bucketOf(digest, buckets),
    a: wordOf(digest, 0),
    b: wordOf(digest, 4),
    c: wordOf(digest, 8),
    d: wordOf(digest, 12),
    entry,
    key,
  };
}

/** The digest of a long key, the key itself where it is short. */
function shortened(key: string): string {
  if (key.length <= longKeyLength) return key;
  let digest = digestsOfLongKeys.get(key);
  if (digest === undefined) {
    digest = hash("sha256", key, "latin1");
    if (digestsOfLongKeys.size >= maxDigests) digestsOfLongKeys.clear();
    digestsOfLongKeys.set(key, digest);
  }
  return digest;
}
