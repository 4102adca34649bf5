/**
 * Describes trace events as text for lists: what happened, and its main facts. Without the schemas, so that a browser
 * need not load them.
 */
import { amountText, moneyText } from "./amounts.ts";
import type { TraceMessage } from "./trace-event.ts";

/** The text of a trace event. */
export interface EventText {
  /** What happened, in one or two words. */
  readonly name: string;
  /** The main facts. Contains texts from clients without escapes. */
  readonly summary: string;
}

/** Describes a trace event. */
export function describeMessage(message: TraceMessage): EventText {
  switch (message.type) {
    case "requestStarted": {
      const { method, scheme, authority, path, sourceAddress } = message;
      return { name: "Request", summary: `${method} ${scheme}://${authority}${path} from ${sourceAddress}` };
    }
    case "routeSelection":
      return { name: "Route", summary: routeWords(message) };
    case "policySelection":
      return { name: "Policies", summary: message.policies.map(({ policy }) => policy).join(", ") || "none apply" };
    case "authentication":
      return { name: "Identity", summary: authenticationWords(message) };
    case "policy":
      return { name: message.kind === "localRateLimit" ? "Limit" : "Global", summary: policyWords(message) };
    case "backendCallStart":
      return {
        name: "Attempt",
        summary: `${message.target} (${message.endpoint}) of ${message.backend}${attempt(message.call)}`,
      };
    case "backendCallResult":
      return { name: "Response", summary: `${message.status ?? message.error ?? "none"} from ${message.target}` };
    case "llmUsage":
      return { name: "Usage", summary: usageWords(message) };
    case "requestFinished":
      return { name: "Finished", summary: finishedWords(message) };
  }
}

type Message<Type extends TraceMessage["type"]> = Extract<TraceMessage, { type: Type }>;

function routeWords({
  listener,
  route,
  rule,
  match,
  model,
  evaluatedRoutes,
  passedOver,
}: Message<"routeSelection">): string {
  if (listener === undefined) return "no listener has this host";
  if (route === undefined) {
    const [nearest] = passedOver ?? [];
    const why = nearest === undefined ? "" : `; the nearest is ${nearest}`;
    const request = model === undefined ? "" : ` the model ${model}`;
    return `no route of ${listener} matches${request}; evaluated ${shortened(evaluatedRoutes)}${why}`;
  }
  const chosen = `${rule ?? route}${match === undefined ? "" : ` by ${match}`}`;
  return model === undefined ? chosen : `${chosen}, for the model ${model}`;
}

/** The maximum number of names in a line. */
const namesShown = 3;

function shortened(names: readonly string[]): string {
  if (names.length === 0) return "none";
  const shown = names.slice(0, namesShown).join(", ");
  return names.length > namesShown ? `${shown} and ${names.length - namesShown} more` : shown;
}

function authenticationWords({ policies, result, rejectedBy, identity }: Message<"authentication">): string {
  if (rejectedBy !== undefined) return `rejected by ${rejectedBy}: ${result}`;
  return `${identity ?? result}, checked by ${shortened(policies.map(({ policy }) => policy))}`;
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
  name = entry?.toString(),
  when = "",
  notApplied = [],
}: Message<"policy">): string {
  const who = `${policy}${name === undefined ? "" : `#${name}`}`;
  if (decision === "notApplied") return `${who} does not apply, since its condition is false: ${when}`;
  const counted =
    before === undefined || limit === undefined
      ? ""
      : `, ${counts ?? "units"} ${amountText(before, counts)} → ${amountText(after ?? before, counts)} of ${amountText(limit, counts)}`;
  const decider = by === undefined || by === "none" ? "" : `, by ${by}`;
  const left = notApplied.map((descriptor) => `, without ${notAppliedWords(descriptor)}`).join("");
  // The key comes last: on a narrow screen it is the first text to be cut.
  const rest = `${counted}${decider}${left}${key === undefined ? "" : `, for ${key.text}`}`;
  if (decision === "shadowDenied") return `would be denied by ${who}${rest}`;
  return `${decision}${mode === "Shadow" ? " (shadow)" : ""} by ${who}${rest}`;
}

/** Says why a descriptor of a global limit does not apply to a request. */
export function notAppliedWords({ descriptor, because, when = "" }: DescriptorNotApplied): string {
  return because === "when"
    ? `descriptors[${descriptor}], since its condition is false: ${when}`
    : `descriptors[${descriptor}], since the request lacks a value with ifAbsent: Skip`;
}

type DescriptorNotApplied = NonNullable<Message<"policy">["notApplied"]>[number];

function usageWords({
  totalTokens,
  inputTokens,
  outputTokens,
  cachedInputTokens = 0,
  cacheCreationTokens = 0,
  reasoningTokens = 0,
  cost,
  currency,
  model,
  estimated,
  uncounted,
}: Message<"llmUsage">): string {
  if (uncounted !== undefined) return `nothing counted: ${uncounted}`;
  const details = [
    ...(cachedInputTokens > 0 ? [`${cachedInputTokens} cached`] : []),
    ...(cacheCreationTokens > 0 ? [`${cacheCreationTokens} to the cache`] : []),
    ...(reasoningTokens > 0 ? [`${reasoningTokens} of reasoning`] : []),
  ];
  const parts = [`${inputTokens ?? "?"} in, ${outputTokens ?? "?"} out`, ...details].join(", ");
  const sum = `${totalTokens ?? "?"} tokens (${parts})`;
  const price = cost === undefined ? "" : ` for ${moneyText(cost)}${currency === undefined ? "" : ` ${currency}`}`;
  return `${sum}${price}${estimated === true ? ", estimated" : ""}${model === undefined ? "" : `, ${model}`}`;
}

function finishedWords({ status, reason, responseBytes }: Message<"requestFinished">): string {
  return `${status}${reason === undefined ? "" : ` ${reason}`}, ${responseBytes} bytes`;
}

function attempt(call: number): string {
  return call === 1 ? "" : `, attempt ${call}`;
}
