/** Redirects of a rule, or of one of its backend references (Gateway API `HTTPRequestRedirectFilter`). */
import { redirectLocation } from "../../filters/redirect.ts";
import type { RedirectTarget } from "../compiled-rule.ts";
import { responseEditor } from "../response-editor.ts";
import type { Stage, StagedRequest } from "../stage.ts";

/** Responds with the redirect of the rule. */
export const redirect: Stage = {
  name: "redirect",
  run(request) {
    const { redirect: target } = request.rule;
    return target === undefined ? "continue" : redirectTo(request, target);
  },
};

/** Responds with the redirect of `target`. */
export function redirectTo(request: StagedRequest, target: RedirectTarget): "responded" {
  const { downstream, services, match, rule } = request;
  const { scheme, authority, path, rawHeaders } = downstream.head;
  const { listenerPort } = services;
  const headers = ["location", redirectLocation(target.redirect, { scheme, authority, path, match, listenerPort })];
  request.reservation?.setHeaders(headers);
  responseEditor(rule, target.filters, rawHeaders)?.(headers);
  return request.respond(target.redirect.statusCode, headers, "");
}
