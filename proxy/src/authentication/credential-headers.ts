/** The header fields with the credentials of clients, which the logs, traces and dumps of a thread do not show. */
import type { ApiKeySource, Authentication } from "../ir/authentication.ts";
import type { Snapshot } from "../ir/snapshot.ts";
import { bearerField } from "./credentials.ts";

/** The fields of which a policy reads credentials. */
export function fieldsOf({ issuers, apiKeys }: Authentication): readonly ApiKeySource[] {
  return [...(issuers.length > 0 ? [bearerField] : []), ...(apiKeys?.from ?? [])];
}

/** Returns every authentication of a snapshot. One that several rules share is listed several times. */
export function authenticationsOf({ binds }: Snapshot): readonly Authentication[] {
  const all: Authentication[] = [];
  for (const { listeners } of binds) {
    for (const { routes } of listeners) {
      for (const { rules } of routes) {
        for (const { authentication } of rules) if (authentication !== undefined) all.push(...authentication);
      }
    }
  }
  return all;
}

/** Returns the names of the header fields from which credentials are read, each once. */
export function credentialHeadersOf(all: readonly Authentication[]): ReadonlySet<string> {
  return new Set([...new Set(all)].flatMap((each) => fieldsOf(each).map(({ header }) => header)));
}
