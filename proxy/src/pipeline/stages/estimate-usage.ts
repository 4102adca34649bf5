/** Estimates what the request may use, for limits that reserve it. */
import type { TokenUsage } from "../../ir/usage.ts";
import { withCost } from "../../llm/price.ts";
import { estimatedUsage } from "../../llm/request-estimate.ts";
import { type Encoding, encodingOf } from "../../llm/tokens/encoding.ts";
import { backendsOf, type BackendTarget } from "../compiled-rule.ts";
import type { Stage, StagedRequest } from "../stage.ts";
import { backendPath, mayGenerate } from "./target.ts";

/** The tokens of the prompt in an encoding. */
interface Counted {
  readonly encoding: Encoding;
  readonly tokens: number | undefined;
}

/**
 * Runs after `pickTarget`. Counts the tokens of the prompt where the encoding of the model is known. A request that
 * generates nothing, and one that no backend gets, has no estimate.
 */
export const estimateUsage: Stage = {
  name: "estimate usage",
  run(request) {
    const { services, llm, providers, target } = request;
    const picked = providers === undefined ? target : ({ kind: "providers", weight: 0, ...providers.list } as const);
    const targets = picked === undefined ? [] : backendsOf(picked);
    if (llm === undefined || !targets.some(({ filters }) => mayGenerate(request, filters.path))) return "continue";
    const { tokens } = services;
    const body = request.takeBody();
    const encoding = targets.map(({ ai }) => encodingOf(modelOf(request, ai))).find((each) => each !== undefined);
    if (tokens === undefined || encoding === undefined || body === undefined) return estimate(request, targets);
    return request.wait<Counted>({
      start: (done) =>
        body.collect((whole) => {
          const counted = (count: number | undefined): void => done({ encoding, tokens: count });
          if (whole === undefined) counted(undefined);
          else tokens.count(encoding, whole, counted);
        }),
      proceed: (counted) => estimate(request, targets, counted),
      onAbandoned: () => request.reservation?.refund(),
    });
  },
};

/** Of several providers the highest cost counts. */
function estimate(request: StagedRequest, targets: readonly BackendTarget[], counted?: Counted): "continue" {
  const { services, llm, record } = request;
  request.takeBody()?.countTokenIds();
  const estimates = targets.map(({ ai, filters, backend: { backend } }) => {
    const model = modelOf(request, ai);
    const prompt = counted !== undefined && encodingOf(model) === counted.encoding ? counted.tokens : undefined;
    const path = backendPath(request, filters.path);
    const usage = estimatedUsage(record, llm, path, services.outputMeans.of(backend.key, model), prompt);
    return withCost(usage, ai, llm?.clientModel);
  });
  const highest = estimates.reduce((one, other) => (weightOf(other) > weightOf(one) ? other : one));
  if (llm !== undefined) request.llm = { ...llm, estimate: highest };
  return "continue";
}

function modelOf({ llm }: StagedRequest, ai: BackendTarget["ai"]): string {
  return ai?.model ?? llm?.clientModel ?? "";
}

function weightOf({ cost = 0, total }: TokenUsage): number {
  return cost > 0 ? cost : total;
}
