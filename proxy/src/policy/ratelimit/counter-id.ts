/**
 * The identity of a counter: a fingerprint of its entry and of its key's value. Shared memory finds the counter by the
 * fingerprint alone, without a list of entries. So an edit of one entry does not move the counters of others, and all
 * threads compute the same fingerprint without communication.
 */
import { hash } from "node:crypto";
import { bucketOf, wordOf } from "@gatewayproxy/runtime/counter-memory";
import type { LocalLimit } from "../../ir/limit.ts";

/** SHA-256 digest of an entry's identity, as latin1 text of 32 characters. */
export type EntryId = string;

/** Selects one counter in a counter table. */
export interface CounterId {
  /** The bucket of the table that may hold the counter. */
  readonly bucket: number;
  /** The fingerprint, as four 32-bit words. */
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly d: number;
  /** The identity of the entry that the counter belongs to; equal for all values of its key. */
  readonly entry: EntryId;
  /** The key's value; undefined for the one counter of an entry without key, or of requests without a value. */
  readonly key: string | undefined;
}

/**
 * Returns the identity of an entry. The memory's `seed` keeps it secret. The key's expression is part of it, so one
 * value under two expressions has two counters, except in a bucket, whose entries share a counter per value.
 */
export function entryId(seed: string, limit: LocalLimit): EntryId {
  return hash(
    "sha256",
    JSON.stringify([seed, limit.counter, limit.bucket === undefined ? limit.key : undefined]),
    "latin1",
  );
}

/** Returns the label of an entry's identity for operators: 16 hexadecimal digits. */
export function entryLabel(entry: EntryId): string {
  return labelOfWords(wordOf(entry, 0), wordOf(entry, 4));
}

/** Returns the same label from the two words that a slot stores. */
export function labelOfWords(first: number, second: number): string {
  return [first, second].map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}

/**
 * Key values can be as long as the request's header section. A value with more characters than this is hashed once for
 * all entries.
 */
const longKeyLength = 256;
/** The digests of the most recent long values. The header section of one request has room for few of them. */
const digestsOfLongKeys = new Map<string, string>();
const maxDigests = 16;

/**
 * Returns the counter of an entry for one value of its key, or the shared counter without one, in a table with
 * `buckets` buckets.
 */
export function counterId(entry: EntryId, key: string | undefined, buckets: number): CounterId {
  // The entry's digest has a fixed length and is secret, so no two pairs of entry and value produce the same text.
  const digest = key === undefined ? entry : hash("sha256", entry + hashIfLong(key), "latin1");
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

/** Returns the digest of a long key, and a short key unchanged. */
function hashIfLong(key: string): string {
  if (key.length <= longKeyLength) return key;
  let digest = digestsOfLongKeys.get(key);
  if (digest === undefined) {
    digest = hash("sha256", key, "latin1");
    if (digestsOfLongKeys.size >= maxDigests) digestsOfLongKeys.clear();
    digestsOfLongKeys.set(key, digest);
  }
  return digest;
}
