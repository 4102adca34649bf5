/**
 * Trace events in words, for whoever lists them: what happened, and what one looks for first. Without the schemas, so
 * that a browser need not load them.
 */
import type { TraceMessage } from "./trace-event.ts";

export interface EventWords {
  /** What happened, in a word or two. */
  readonly name: string;
  /** Holds texts of clients as they came. */
  readonly summary: string;
}

export function describeMessage(message: TraceMessage): EventWords {
  switch (message.type) {
    case "requestStarted": {
      const { method, scheme, authority, path, sourceAddress } = message;
      return { name: "Request", summary: `${method} ${scheme}://${authority}${path} from ${sourceAddress}` };
    }
    case "routeSelection":
      return { name: "Route", summary: routeWords(message) };
    case "policySelection":
      return { name: "Policies", summary: message.policies.map(({ policy }) => policy).join(", ") || "none apply" };
    case "policy":
      return { name: message.kind === "localRateLimit" ? "Limit" : "Global", summary: policyWords(message) };
    case "backendCallStart":
      return {
        name: "Call",
        summary: `${message.target} (${message.endpoint}) of ${message.backend}${nth(message.call)}`,
      };
    case "backendCallResult":
      return { name: "Answer", summary: `${message.status ?? message.error ?? "none"} from ${message.target}` };
    case "llmUsage":
      return { name: "Usage", summary: usageWords(message) };
    case "requestFinished":
      return { name: "Finished", summary: finishedWords(message) };
  }
}

type Message<Type extends TraceMessage["type"]> = Extract<TraceMessage, { type: Type }>;

function routeWords({ listener, route, rule, match, evaluatedRoutes, passedOver }: Message<"routeSelection">): string {
  if (listener === undefined) return "no listener has this host";
  if (route === undefined) {
    const [nearest] = passedOver ?? [];
    const why = nearest === undefined ? "" : `; nearest is ${nearest}`;
    return `no route of ${listener} matches, out of ${shortened(evaluatedRoutes)}${why}`;
  }
  return `${rule ?? route}${match === undefined ? "" : ` by ${match}`}`;
}

/** How many names a line takes. */
const namesShown = 3;

function shortened(names: readonly string[]): string {
  if (names.length === 0) return "none";
  const shown = names.slice(0, namesShown).join(", ");
  return names.length > namesShown ? `${shown} and ${names.length - namesShown} more` : shown;
}

function policyWords({
  decision,
  policy,
  entry,
  counts,
  key,
  limit,
  before,
  after,
  by,
  mode,
}: Message<"policy">): string {
  const who = `${policy}${entry === undefined ? "" : `#${entry}`}`;
  const counted =
    before === undefined || limit === undefined
      ? ""
      : `, ${counts ?? "units"} ${before} → ${after ?? before} of ${limit}`;
  const decider = by === undefined || by === "none" ? "" : `, by ${by}`;
  // The key comes last: it is what a narrow screen can do without.
  const rest = `${counted}${decider}${key === undefined ? "" : `, for ${key.text}`}`;
  if (decision === "shadowDenied") return `would be denied by ${who}${rest}`;
  return `${decision}${mode === "Shadow" ? " (shadow)" : ""} by ${who}${rest}`;
}

function usageWords({
  totalTokens,
  inputTokens,
  outputTokens,
  model,
  estimated,
  uncounted,
}: Message<"llmUsage">): string {
  if (uncounted !== undefined) return `nothing counted: ${uncounted}`;
  const sum = `${totalTokens ?? "?"} tokens (${inputTokens ?? "?"} in, ${outputTokens ?? "?"} out)`;
  return `${sum}${estimated === true ? ", estimated" : ""}${model === undefined ? "" : `, ${model}`}`;
}

function finishedWords({ status, reason, responseBytes }: Message<"requestFinished">): string {
  return `${status}${reason === undefined ? "" : ` ${reason}`}, ${responseBytes} bytes`;
}

function nth(call: number): string {
  return call === 1 ? "" : `, call ${call}`;
}
