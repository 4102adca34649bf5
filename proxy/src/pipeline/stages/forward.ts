/** Forwards the request: the attempts at its backend, and the response to the client. Always the last stage. */
import { Forwarding } from "../attempts/forwarding.ts";
import type { BackendTarget, CompiledRule } from "../compiled-rule.ts";
import { responseEditor } from "../response-editor.ts";
import { isWebSocket, type OutgoingRequest } from "../provider-request.ts";
import { RealtimeSession } from "../realtime-session.ts";
import { outgoingOf, type Stage, type StagedRequest } from "../stage.ts";

export const forward: Stage = {
  name: "forward",
  run(request) {
    const { target, request: outgoing, usageEdit } = outgoingOf(request);
    const { services, downstream, record, trace, rule, deadline, client, reservation } = request;
    return new Forwarding({
      clock: services.clock,
      random: services.random,
      downstream,
      client,
      record,
      trace,
      target,
      request: outgoing,
      deadline,
      attemptTimeoutMs: rule.timeouts?.backendRequestMs ?? 0,
      idleTimeoutMs: idleTimeoutOf(rule, target),
      retry: rule.retry,
      reservation,
      editResponse: responseEditor(rule, target.filters, downstream.head.rawHeaders),
      usageEdit,
      readsUsage: target.ai !== undefined || rule.countsTokens,
      reportsCharge: rule.limits.countsTokens,
      session: sessionOf(request, target, outgoing),
      abandonedResponses: rule.countsTokens ? services.abandonedResponses : undefined,
      reply: (reply) => void request.reply(reply),
      fault: (error) => request.fault(error),
    });
  },
};

/** A WebSocket to a model is counted if a limit counts tokens. */
function sessionOf(
  { services, record, rule, client, reservation }: StagedRequest,
  { ai }: BackendTarget,
  { upgrade }: OutgoingRequest,
): RealtimeSession | undefined {
  if (ai === undefined || !rule.countsTokens || reservation === undefined || !isWebSocket(upgrade)) return undefined;
  const { abandonedResponses } = services;
  return new RealtimeSession({ record, reservation, abandonedResponses, client });
}

/** LLM responses may take many minutes until their first byte. Clients have shorter timeouts than this. */
const aiIdleTimeoutMs = 3_600_000;

/** Undefined: that of the pool. A timeout of the rule, even one that says 0, takes its place. */
function idleTimeoutOf({ timeouts }: CompiledRule, { ai }: BackendTarget): number | undefined {
  if (timeouts?.requestMs !== undefined || timeouts?.backendRequestMs !== undefined) return 0;
  return ai === undefined ? undefined : aiIdleTimeoutMs;
}
