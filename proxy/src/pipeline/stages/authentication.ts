/** Authenticates a request: the identity goes to the request and its record, the check to the trace. */
import {
  type AuthenticationFault,
  type AuthenticationResult,
  type Authenticator,
  faultText,
} from "../../authentication/authenticator.ts";
import type { LocalReply } from "../local-replies.ts";
import type { Stage, StagedRequest, StageResult } from "../stage.ts";
import { authenticationResult } from "../trace-messages.ts";

export const authenticate: Stage = {
  name: "authentication",
  run(request) {
    const { authentication } = request.rule;
    if (authentication === undefined) return "continue";
    const result = authentication.check(request.downstream.head.rawHeaders, request.client);
    if (!(result instanceof Promise)) return conclude(request, authentication, result);
    return request.wait<AuthenticationResult>({
      start: (done) => void result.then(done).catch((error: unknown) => request.fault(error)),
      proceed: (later) => conclude(request, authentication, later),
    });
  },
};

function conclude(request: StagedRequest, authenticator: Authenticator, result: AuthenticationResult): StageResult {
  const { record, trace } = request;
  trace?.emit(authenticationResult(authenticator, result), result.kind === "accepted" ? "success" : "warn");
  if (result.kind === "rejected") {
    record.authentication = result.fault;
    return request.reply(replyTo(result.fault, result.challenges));
  }
  record.identity = result.name;
  record.authentication = result.name === undefined ? "anonymous" : "accepted";
  request.identities = result.identities;
  return "continue";
}

/** A credential that cannot be verified now may be valid: the client may try again (RFC 9110 §15.6.4). */
const unavailable: readonly AuthenticationFault[] = ["keysUnavailable", "overloaded"];

function replyTo(fault: AuthenticationFault, challenges: readonly string[]): LocalReply {
  if (unavailable.includes(fault)) {
    const body = `the request cannot be authenticated now: ${faultText(fault)}`;
    return { status: 503, reason: "AuthenticationUnavailable", body, retryAfter: 1 };
  }
  return { status: 401, reason: "Unauthenticated", body: `authentication failed: ${faultText(fault)}`, challenges };
}
