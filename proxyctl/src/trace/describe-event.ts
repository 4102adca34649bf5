/** A trace event in words: one line for a list, lines of YAML for a closer look. */
import type { TraceEvent, TraceMessage } from "@gatewayproxy/admin-api/trace-event";
import { stringify } from "yaml";
import { withoutControls } from "../output/table.ts";
import type { Style, Styles } from "../output/style.ts";

/** What a list shows of an event. */
export interface EventLine {
  /** Since the request began: `0.42ms`. */
  readonly time: string;
  /** What happened, in a word or two. */
  readonly name: string;
  readonly summary: string;
}

/** Never throws; texts of clients are shown without what a terminal would obey. */
export function describeEvent({ eventEnd, message }: TraceEvent): EventLine {
  const { name, summary } = wordsFor(message);
  return { time: renderMicroseconds(eventEnd), name, summary: withoutControls(summary) };
}

/** The whole event, as YAML. */
export function detailOf({ eventStart, eventEnd, severity, message }: TraceEvent): readonly string[] {
  const took = eventEnd - eventStart;
  const head = {
    at: renderMicroseconds(eventStart),
    took: took === 0 ? undefined : renderMicroseconds(took),
    severity,
  };
  return stringify({ ...head, ...message }, { lineWidth: 0 })
    .trimEnd()
    .split("\n")
    .map(withoutControls);
}

/** How an event of this severity looks. */
export function styleOf(severity: TraceEvent["severity"], styles: Styles): Style {
  if (severity === "error") return styles.bad;
  if (severity === "warn") return styles.warning;
  return severity === "success" ? styles.good : (text) => text;
}

/** `0.42ms`, `1500.00ms`. */
export function renderMicroseconds(us: number): string {
  return `${(us / 1_000).toFixed(2)}ms`;
}

function wordsFor(message: TraceMessage): { readonly name: string; readonly summary: string } {
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

function routeWords({ listener, route, rule, match, evaluatedRoutes }: Message<"routeSelection">): string {
  if (listener === undefined) return "no listener has this host";
  if (route === undefined) return `no route of ${listener} matches, out of ${shortened(evaluatedRoutes)}`;
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
