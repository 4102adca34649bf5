/** Selects the rule of a request, or the local reply for one that belongs to no rule or could belong to several. */
import { readPreflight } from "../filters/cors.ts";
import type { ClientValidation, Listener } from "../ir/snapshot.ts";
import type { Connection } from "../listen/connection.ts";
import type { RequestHead } from "../listen/request-head.ts";
import { ambiguousPath, type LocalReply, matchTooCostly, misdirected } from "../pipeline/local-replies.ts";
import type { Pipeline } from "../pipeline/stages.ts";
import { BudgetExceeded, WorkBudget } from "../regex/work-budget.ts";
import {
  maxMatchUnits,
  ModelUnread,
  type RequestModel,
  type RouteIndex,
  type RouteMatch,
} from "../routing/compile-routes.ts";
import { otherReadings } from "../routing/normalize-path.ts";
import type { PathRules } from "../routing/path-rules.ts";

/**
 * `match` is undefined if no rule matches; `listener` is the one of the requested host, if any. `needsModel`: the rule
 * depends on the model of the request, which is to be read first.
 */
export type RouteSelection =
  | { readonly kind: "needsModel"; readonly listener: Listener | undefined }
  | {
      readonly kind: "selected";
      readonly match: RouteMatch<Pipeline> | undefined;
      readonly listener: Listener | undefined;
    }
  | { readonly kind: "rejected"; readonly reply: LocalReply; readonly listener: Listener | undefined };

/** Returns the model of the request if it had this path. */
export type ModelOfPath = (path: string) => RequestModel;

/**
 * Selects among the routes of a bind.
 *
 * @param modelOf absent: the model is not read, and the result may be `needsModel`.
 */
export function selectRoute(
  routes: RouteIndex<Pipeline>,
  head: RequestHead,
  connection: Connection,
  rules: PathRules,
  modelOf?: ModelOfPath,
): RouteSelection {
  const match = findRule(routes, withModelOf(head, modelOf), new WorkBudget(maxMatchUnits));
  const known = typeof match === "object" ? match : undefined;
  const listener = known === undefined ? routes.findListener(head.authority) : known.listener;
  const reply = isMisdirected(routes, listener, connection)
    ? misdirected
    : match === "tooCostly"
      ? matchTooCostly
      : undefined;
  if (reply !== undefined) return { kind: "rejected", reply, listener };
  if (match === "needsModel") return { kind: "needsModel", listener };
  const reading = known === undefined ? "same" : readOtherwise(routes, head, known, rules, modelOf);
  if (reading === "needsModel") return { kind: "needsModel", listener };
  if (reading === "other") return { kind: "rejected", reply: ambiguousPath, listener };
  return { kind: "selected", match: known, listener };
}

function withModelOf(head: RequestHead, modelOf: ModelOfPath | undefined): RequestHead {
  return modelOf === undefined ? head : { ...head, model: modelOf(head.path) };
}

/** Whether a server could read the path in a way that belongs to another rule, or counts differently for a limit. */
function readOtherwise(
  routes: RouteIndex<Pipeline>,
  head: RequestHead,
  { compiled }: RouteMatch<Pipeline>,
  rules: PathRules,
  modelOf: ModelOfPath | undefined,
): "same" | "other" | "needsModel" {
  const readings = otherReadings(head.path, rules);
  if (readings.length === 0) return "same";
  if (compiled.rule.readsPath) return "other";
  const queryStart = head.path.indexOf("?");
  const query = queryStart === -1 ? "" : head.path.slice(queryStart);
  // One for all readings.
  const budget = new WorkBudget(maxMatchUnits);
  for (const path of readings) {
    const found = findRule(routes, withModelOf({ ...head, path: path + query }, modelOf), budget);
    if (found === "needsModel") return "needsModel";
    if (found === undefined || found === "tooCostly" || found.isQueryAmbiguous || found.compiled !== compiled) {
      return "other";
    }
  }
  return "same";
}

/**
 * The rule of a request; `tooCostly` where finding it costs more than `budget` has, `needsModel` where it depends on
 * the model and the head has none.
 */
function findRule(
  routes: RouteIndex<Pipeline>,
  head: RequestHead,
  budget: WorkBudget,
): RouteMatch<Pipeline> | undefined | "tooCostly" | "needsModel" {
  try {
    return findAffordable(routes, head, budget);
  } catch (error) {
    if (error instanceof BudgetExceeded) return "tooCostly";
    if (error instanceof ModelUnread) return "needsModel";
    throw error;
  }
}

/**
 * A preflight belongs to the request that it announces: where no rule with CORS takes the preflight itself, the one
 * does that takes the announced method, whatever model the announced request will name.
 */
function findAffordable(
  routes: RouteIndex<Pipeline>,
  head: RequestHead,
  budget: WorkBudget,
): RouteMatch<Pipeline> | undefined {
  const match = routes.find(head, budget);
  if (head.method !== "OPTIONS" || match?.compiled.rule.cors !== undefined) return match;
  const preflight = readPreflight(head.method, head.rawHeaders);
  if (preflight === undefined) return match;
  const announced = routes.find({ ...head, method: preflight.method, model: { kind: "any" } }, budget);
  return announced?.compiled.rule.cors === undefined ? match : announced;
}

/**
 * Whether a request came by a connection that was made for another listener (RFC 9110 §15.5.20). Clients reuse a
 * connection for every host that its certificate names (RFC 9113 §9.1.1); but what was agreed on for one listener, most
 * of all who the client is, says nothing about another one, nor about the same one under rules that have changed since.
 */
function isMisdirected(routes: RouteIndex<Pipeline>, listener: Listener | undefined, { tls }: Connection): boolean {
  if (tls === undefined) return listener?.tls !== undefined;
  if (routes.findListener(tls.serverName) !== listener) return true;
  return listener !== undefined && !isSameRule(tls.validation, listener.tls?.clientValidation);
}

function isSameRule(a: ClientValidation | undefined, b: ClientValidation | undefined): boolean {
  if (a?.mode !== b?.mode) return false;
  if (a === undefined || b === undefined) return a === b;
  // The same list is one object in a worker, for as long as snapshots name it (`ReceivedParts`).
  if (a.authorities === b.authorities) return true;
  return a.authorities.length === b.authorities.length && a.authorities.every((text, at) => text === b.authorities[at]);
}
