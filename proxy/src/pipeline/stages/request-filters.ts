/** Makes the request to the backend: the header section and the path after the filters of the rule and the reference. */
import { removeCredentials } from "../../authentication/credentials.ts";
import { forwardRequestHeaders } from "../../filters/forwarded.ts";
import { rewritePath } from "../../filters/url-rewrite.ts";
import { backendOf, type Stage } from "../stage.ts";

export const requestFilters: Stage = {
  name: "request filters",
  run(request) {
    const target = backendOf(request);
    const { filters, authority } = target;
    const { head, connection, upgrade } = request.downstream;
    const headers = forwardRequestHeaders(head.rawHeaders, {
      host: filters.hostname ?? authority ?? head.authority,
      authority: head.authority,
      scheme: head.scheme,
      sourceAddress: connection.sourceAddress,
      requestId: request.record.requestId,
    });
    if (request.rule.authentication !== undefined) removeCredentials(headers, request.rule.authentication.removes);
    request.reservation?.setBackendHeaders(headers);
    filters.editRequest?.(headers);
    headers.push("cdn-loop", request.loop);
    const path = filters.path === undefined ? head.path : rewritePath(filters.path, request.match, head.path);
    const body = request.takeBody();
    request.outgoing = { target, request: { method: head.method, path, headers, body, upgrade }, usageEdit: undefined };
    return "continue";
  },
};
