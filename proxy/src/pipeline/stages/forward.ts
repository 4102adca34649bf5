/** Forwards the request: the attempts at its backend, and the response to the client. Always the last stage. */
import type { ApiKeySource } from "../../ir/authentication.ts";
import { type Failover, Forwarding } from "../attempts/forwarding.ts";
import type { AiBackend } from "../../ir/snapshot.ts";
import type { BackendTarget, CompiledRule } from "../compiled-rule.ts";
import { isWebSocket } from "../../listen/upgrade-protocol.ts";
import type { OutgoingRequest, ProviderRequest } from "../provider-request.ts";
import { RealtimeSession } from "../realtime-session.ts";
import { responseEditor } from "../response-editor.ts";
import { outgoingOf, type Stage, type StagedRequest } from "../stage.ts";
import { prepareForTarget } from "./prepare-body.ts";
import { requestTo } from "./request-filters.ts";

const noCredentials: readonly ApiKeySource[] = [];

export const forward: Stage = {
  name: "forward",
  run(request) {
    const { target, request: outgoing, usageEdit } = outgoingOf(request);
    const { services, downstream, record, trace, span, rule, deadline, client, reservation } = request;
    return new Forwarding({
      clock: services.clock,
      random: services.random,
      downstream,
      client,
      startMs: request.startMs,
      record,
      trace,
      span,
      target,
      request: outgoing,
      credentials: rule.authentication?.reads ?? noCredentials,
      deadline,
      attemptTimeoutMs: rule.timeouts?.backendRequestMs ?? 0,
      idleTimeoutMs: idleTimeoutOf(rule, target),
      failover: failoverOf(request),
      retry: rule.retry,
      reservation,
      editResponse: responseEditor(rule, target.filters, downstream.head.rawHeaders),
      usageEdit,
      readsUsage: target.ai !== undefined || rule.countsTokens,
      outputMeans: rule.reserves ? services.outputMeans : undefined,
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
  const { abandonedResponses, clock } = services;
  const modelsOf = (provider: AiBackend): ReadonlySet<string> | undefined =>
    modelsOfSession(provider, rule, record.clientModel);
  return new RealtimeSession({ record, reservation, abandonedResponses, client, modelsOf, clock });
}

/**
 * Returns the models that events of a session may name; undefined if the Backend and the limits permit any. Those are
 * not edited, so they may also use the name that the provider gets.
 */
function modelsOfSession(
  { model, models }: AiBackend,
  { requiresPrice }: CompiledRule,
  clientModel: string | undefined,
): ReadonlySet<string> | undefined {
  const own = [model, clientModel].filter((name) => name !== undefined);
  if (model !== undefined) return new Set(own);
  if (models !== undefined) return new Set(models.flatMap(({ name, as }) => [name, as]));
  return requiresPrice ? new Set(own) : undefined;
}

/** Undefined if the backend has no list of providers. */
function failoverOf(request: StagedRequest): Failover | undefined {
  const { providers: choice } = request;
  if (choice === undefined) return undefined;
  return { choice, prepare: (target, done) => prepareNext(request, target, done) };
}

/** Prepares the request for another provider, from the body as it came. */
function prepareNext(request: StagedRequest, target: BackendTarget, done: (prepared: ProviderRequest) => void): void {
  request.takeBody()?.restore();
  request.record.requestModel = target.ai?.model ?? request.record.clientModel;
  prepareForTarget(request, { target, request: requestTo(request, target) }, done);
}

/** LLM responses may take many minutes until their first byte. Clients have shorter timeouts than this. */
const aiIdleTimeoutMs = 3_600_000;

/** Undefined: that of the pool. A timeout of the rule, even one that says 0, takes its place. */
function idleTimeoutOf({ timeouts }: CompiledRule, { ai }: BackendTarget): number | undefined {
  if (timeouts?.requestMs !== undefined || timeouts?.backendRequestMs !== undefined) return 0;
  return ai === undefined ? undefined : aiIdleTimeoutMs;
}
