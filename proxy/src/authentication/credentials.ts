/** The fields of a request that may hold a credential. */
import type { ApiKeySource } from "../ir/authentication.ts";

/** Where tokens are read from (RFC 6750 §2.1). Requests have `Bearer` in this spelling, with one space. */
export const bearerField: ApiKeySource = { header: "authorization", prefix: "Bearer " };

/** Returns the credential in a field; undefined if the request has no such field, or one without the prefix. */
export function credentialIn(rawHeaders: readonly string[], { header, prefix = "" }: ApiKeySource): string | undefined {
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    // Names are unique. Comparing the length first avoids a lower-case copy of most names.
    if (name?.length !== header.length || name.toLowerCase() !== header) continue;
    const value = rawHeaders[at + 1] ?? "";
    return value.startsWith(prefix) ? value.slice(prefix.length) : undefined;
  }
  return undefined;
}

/** Removes the fields that hold a credential from a flat header section, in place. */
export function removeCredentials(headers: string[], fields: readonly ApiKeySource[]): void {
  if (fields.length === 0) return;
  let kept = 0;
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const [name = "", value = ""] = [headers[at], headers[at + 1]];
    const lowerCase = name.toLowerCase();
    if (fields.some(({ header, prefix = "" }) => header === lowerCase && value.startsWith(prefix))) continue;
    headers[kept] = name;
    headers[kept + 1] = value;
    kept += 2;
  }
  headers.length = kept;
}
