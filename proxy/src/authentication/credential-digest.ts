/** The digests of the credentials of one request. */
import { hash } from "node:crypto";

/** Returns the SHA-256 of a text in base64. */
export function sha256Of(text: string): string {
  return hash("sha256", text, "base64");
}

/**
 * Returns a function like `sha256Of` that computes the digest of the same text once: a bearer token may be an API key,
 * too, and several policies may read it.
 */
export function digestOnce(): (text: string) => string {
  let last: { readonly text: string; readonly sha256: string } | undefined;
  return (text) => {
    if (last?.text !== text) last = { text, sha256: sha256Of(text) };
    return last.sha256;
  };
}
