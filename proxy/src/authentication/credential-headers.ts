/** The header fields with the credentials of clients, which the logs, traces and dumps of a thread do not show. */
import { memoised } from "@gatewayproxy/runtime/memoised";
import type { ApiKeySource, Authentication } from "../ir/authentication.ts";
import { pagesOfRoutes } from "../ir/route-pages.ts";
import type { Route, Snapshot } from "../ir/snapshot.ts";
import { bearerField } from "./credentials.ts";

/** The fields of which a policy reads credentials. */
export function fieldsOf({ issuers, apiKeys }: Authentication): readonly ApiKeySource[] {
  return [...(issuers.length > 0 ? [bearerField] : []), ...(apiKeys?.from ?? [])];
}

/** Returns every authentication of a snapshot. One that several rules share is listed several times. */
export function authenticationsOf({ binds }: Snapshot): readonly Authentication[] {
  return binds.flatMap(({ listeners }) => listeners.flatMap(({ routes }) => pagesOfRoutes(routes).flatMap(ofPage)));
}

const ofPage = memoised((routes: readonly Route[]): readonly Authentication[] =>
  routes.flatMap(({ rules }) => rules.flatMap(({ authentication }) => authentication ?? [])),
);

/** Returns the names of the header fields from which credentials are read, each once. */
export function credentialHeadersOf(all: readonly Authentication[]): ReadonlySet<string> {
  return new Set([...new Set(all)].flatMap((each) => fieldsOf(each).map(({ header }) => header)));
}
