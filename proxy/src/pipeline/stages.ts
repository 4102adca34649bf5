/** The order in which a request passes the stages of its rule. */
import type { CompiledRule } from "./compiled-rule.ts";
import type { Stage } from "./stage.ts";
import { authenticate } from "./stages/authentication.ts";
import { rejectAmbiguousQuery } from "./stages/ambiguous-query.ts";
import { closedRule } from "./stages/closed-rule.ts";
import { detectLoop } from "./stages/detect-loop.ts";
import { estimateUsage } from "./stages/estimate-usage.ts";
import { forward } from "./stages/forward.ts";
import { globalLimits } from "./stages/global-limits.ts";
import { listModels } from "./stages/list-models.ts";
import { localLimits } from "./stages/local-limits.ts";
import { mirror } from "./stages/mirror.ts";
import { preflight } from "./stages/preflight.ts";
import { prepareBody } from "./stages/prepare-body.ts";
import { redirect } from "./stages/redirect.ts";
import { requestFilters } from "./stages/request-filters.ts";
import { requestModel } from "./stages/request-model.ts";
import { requestTimeout } from "./stages/request-timeout.ts";
import { pickTarget, requireBackend } from "./stages/target.ts";

/** A rule with its stages. */
export interface Pipeline {
  readonly rule: CompiledRule;
  /** Only those that the rule needs. */
  readonly stages: readonly Stage[];
}

/** Lists the stages of a rule. A stage that the rule does not need is left out, so that requests do not pay for it. */
export function pipelineOf(rule: CompiledRule): Pipeline {
  const limitsReadModel = rule.limits.needsBody;
  const readsModel =
    limitsReadModel || rule.globalLimits?.needsBody === true || rule.models !== undefined || rule.hasPrices;
  const picksByModel = readsModel && rule.redirect === undefined;
  const stages = [
    // Before all stages that read the query.
    rejectAmbiguousQuery,
    // Before the limits: browsers send preflight requests on their own, and without credentials.
    rule.cors && preflight,
    rule.isClosed && closedRule,
    // After preflight requests, which have no credentials, and before the limits, which may count by identity.
    rule.authentication && authenticate,
    // A limit by model counts the model that the backend gets, so the backend is picked before such a limit.
    limitsReadModel && requestModel,
    limitsReadModel && picksByModel && pickTarget,
    limitsReadModel && picksByModel && rule.reserves && estimateUsage,
    // Before the global limits: a decision costs a microsecond here, and a call there.
    !rule.limits.isEmpty && localLimits,
    // After the local limits, so that a denied request is not buffered.
    readsModel && !limitsReadModel && requestModel,
    !limitsReadModel && picksByModel && pickTarget,
    !limitsReadModel && picksByModel && rule.reserves && estimateUsage,
    rule.globalLimits && globalLimits,
    // After the limits, since a redirect is a response, too.
    rule.redirect && redirect,
    !picksByModel && pickTarget,
    requireBackend,
    detectLoop,
    requestFilters,
    // Behind the filters, since they may rewrite the path of a list of models; and behind the limits, as any request.
    rule.models && listModels,
    // With the filters of the rule, and before the body is edited for a provider.
    rule.mirrors && mirror,
    // Before the body is awaited: the timeout includes the time in which the client sends it.
    (rule.timeouts?.requestMs ?? 0) > 0 && requestTimeout,
    prepareBody,
    // Makes the attempts with their timeouts and retries, reads the usage, and sends the response to the client
    // (`attempts/`).
    forward,
  ];
  return { rule, stages: stages.filter((stage) => typeof stage === "object") };
}
