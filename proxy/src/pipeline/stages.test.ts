import { expect, test } from "vitest";
import type { GlobalLimitSet } from "../policy/ratelimit/global/global-limiter.ts";
import { compileLimits } from "../policy/ratelimit/local-limiter.ts";
import { freshTable, requestsLimit } from "../policy/ratelimit/testing/local-limits.ts";
import type { RuleModels } from "./rule-models.ts";
import { pipelineOf } from "./stages.ts";
import { redirectTarget, ruleOf } from "./testing/recording-request.ts";

const limits = compileLimits([requestsLimit()], freshTable());
const cors = { origins: { kind: "any" }, allowCredentials: false, maxAgeSeconds: 5 } as const;
const models: RuleModels<never> = { listed: [], provider: undefined, pick: () => undefined };
/** Global limits; only whether they need the body matters here. */
const globalLimits = (needsBody: boolean): GlobalLimitSet => ({ needsBody }) as unknown as GlobalLimitSet;

test.each([
  [
    "a plain rule has only the stages that it needs",
    {},
    ["ambiguous query", "pick target", "require backend", "detect loop", "request filters", "prepare body", "forward"],
  ],
  [
    "a preflight request gets its response before the policies, and local limits decide before global ones",
    { cors, isClosed: true, limits, globalLimits: globalLimits(false), mirrors: true, timeouts: { requestMs: 1 } },
    [
      ...["ambiguous query", "CORS preflight", "closed rule", "local limits", "global limits", "pick target"],
      ...["require backend", "detect loop", "request filters", "mirror", "request timeout", "prepare body", "forward"],
    ],
  ],
  [
    "a limit by model knows the backend, and the body is read after the local limits",
    { limits, globalLimits: globalLimits(true) },
    [
      ...["ambiguous query", "local limits", "request model", "pick target", "global limits", "require backend"],
      ...["detect loop", "request filters", "prepare body", "forward"],
    ],
  ],
  [
    "a local limit by model knows the backend too",
    { limits: compileLimits([requestsLimit({ key: "llm.requestModel" })], freshTable()) },
    [
      ...["ambiguous query", "request model", "pick target", "local limits", "require backend"],
      ...["detect loop", "request filters", "prepare body", "forward"],
    ],
  ],
  [
    "the model chooses the backend after the limits, and a list of models is made behind the filters",
    { limits, globalLimits: globalLimits(false), models },
    [
      ...["ambiguous query", "local limits", "request model", "pick target", "global limits", "require backend"],
      ...["detect loop", "request filters", "list models", "prepare body", "forward"],
    ],
  ],
  [
    "a redirect is limited, and picks no backend before",
    { limits, globalLimits: globalLimits(true), redirect: redirectTarget() },
    [
      ...["ambiguous query", "local limits", "request model", "global limits", "redirect", "pick target"],
      ...["require backend", "detect loop", "request filters", "prepare body", "forward"],
    ],
  ],
  [
    "a timeout of 0 adds no stage",
    { timeouts: { requestMs: 0 } },
    ["ambiguous query", "pick target", "require backend", "detect loop", "request filters", "prepare body", "forward"],
  ],
])("%s", (_title, rule, names) => {
  expect(pipelineOf(ruleOf(rule)).stages.map(({ name }) => name)).toEqual(names);
});
