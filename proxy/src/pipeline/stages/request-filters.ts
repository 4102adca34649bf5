/**
 * Makes the request to the backend: the header section and the path after the filters of the rule and the reference.
 */
import { removeCredentials } from "../../authentication/credentials.ts";
import { forwardRequestHeaders } from "../../filters/forwarded.ts";
import { replaceFields } from "../../filters/header-edits.ts";
import { rewritePath } from "../../filters/url-rewrite.ts";
import type { BackendTarget } from "../compiled-rule.ts";
import type { OutgoingRequest } from "../provider-request.ts";
import { backendOf, type Stage, type StagedRequest } from "../stage.ts";

/** Makes the request to the picked target. */
export const requestFilters: Stage = {
  name: "request filters",
  run(request) {
    const target = backendOf(request);
    request.outgoing = { target, request: requestTo(request, target), usageEdit: undefined };
    return "continue";
  },
};

/** Returns the request as its client sent it, with the filters of a target. */
export function requestTo(request: StagedRequest, { filters, authority }: BackendTarget): OutgoingRequest {
  const { head, connection, upgrade } = request.downstream;
  const forwarded = forwardRequestHeaders(head.rawHeaders, {
    host: filters.hostname ?? authority ?? head.authority,
    authority: head.authority,
    scheme: head.scheme,
    sourceAddress: connection.sourceAddress,
    requestId: request.record.requestId,
  });
  // Before the filters, which may remove what is sent to a backend. Attempts set their own.
  const headers = request.span?.withContext(forwarded) ?? forwarded;
  if (request.rule.authentication !== undefined) removeCredentials(headers, request.rule.authentication.removes);
  request.reservation?.setBackendHeaders(headers);
  filters.editRequest?.(headers);
  headers.push("cdn-loop", request.loop);
  // The beginning of a response decides whether the request moves to another provider, so it is read.
  if (request.providers !== undefined) replaceFields(headers, ["accept-encoding", "identity"]);
  const path = filters.path === undefined ? head.path : rewritePath(filters.path, request.match, head.path);
  return { method: head.method, path, headers, body: request.takeBody(), upgrade };
}
