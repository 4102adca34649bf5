/**
 * Reads the model that a request names: in its body, in its path, or in the query of a realtime session. The body is
 * buffered for that. A request that servers could read differently is rejected, since it would get past the rule or the
 * limit of its model.
 */
import type { RequestHead } from "../listen/request-head.ts";
import { maxAiRequestBytes, mayBeginObject } from "../llm/ai-request.ts";
import { hasNoModel, type LlmRequest, llmRequestNames, readLlmRequest } from "../llm/llm-request.ts";
import { modelOfTarget, withTargetModel } from "../llm/request-target.ts";
import type { JsonReading } from "../llm/request-json.ts";
import type { RequestModel } from "../routing/compile-routes.ts";
import { isEncoded } from "./body/body-encoding.ts";
import { readBody } from "./body/body-reading.ts";
import type { RequestBody } from "./body/request-body.ts";
import { bodyEncoded, bodyNotBuffered, type LocalReply, otherModelInTarget, unreadableBody } from "./local-replies.ts";

/** What a request names, or the reply to one that cannot be read. */
export type ModelReading = ReadModel | { readonly kind: "rejected"; readonly reply: LocalReply };

/** What a request names. */
export interface ReadModel {
  readonly kind: "read";
  readonly llm: LlmRequest;
  /** The model in the body, whatever the path names. */
  readonly bodyModel: string | undefined;
  /** Whether the body has been read: false for one that cannot be a JSON object. */
  readonly isWhole: boolean;
}

/** The parts of the head that a reading depends on. */
export type ModelHead = Pick<RequestHead, "path" | "rawHeaders">;

/**
 * Reads a request whose limits or backends depend on its model: a body that is not one JSON object is rejected, except
 * a form and an empty one, which name no model.
 *
 * @param done called once, perhaps at once; never when the client leaves meanwhile.
 */
export function readModel(head: ModelHead, body: RequestBody | undefined, done: (reading: ModelReading) => void): void {
  if (body === undefined) done(readingOf({}, head.path));
  else collectModel(head, body, done);
}

/**
 * Reads a request before its rule is known. It may be for something else than a model, so a body that no server could
 * read as a JSON object names no model, and is not buffered.
 *
 * @param done called once, perhaps at once; never when the client leaves meanwhile.
 */
export function readModelForRoute(
  head: ModelHead,
  body: RequestBody | undefined,
  done: (reading: ModelReading) => void,
): void {
  if (body === undefined) {
    done(readingOf({}, head.path));
  } else if (isEncoded(head.rawHeaders)) {
    done({ kind: "rejected", reply: bodyEncoded });
  } else {
    body.peek((start) => {
      if (start.length > 0 && mayBeginObject(start)) collectModel(head, body, done);
      else done(readingOf({}, head.path, false));
    });
  }
}

/**
 * Returns the model of a request for the search of its rule, if it had this path: a path is matched in each way in
 * which servers could read it.
 *
 * @param read by `readModelForRoute`.
 */
export function routedModel({ bodyModel }: ReadModel, path: string): RequestModel {
  const target = modelOfTarget(path);
  const name = target === "twoModels" ? undefined : (target.name ?? bodyModel);
  return name === undefined ? { kind: "none" } : { kind: "named", name };
}

function collectModel(head: ModelHead, body: RequestBody, done: (reading: ModelReading) => void): void {
  body.keepUpTo(maxAiRequestBytes);
  body.collect((whole) => {
    if (whole === undefined) {
      done({ kind: "rejected", reply: bodyNotBuffered(body) });
    } else if (hasNoModel(whole)) {
      done(readingOf({}, head.path));
    } else {
      readBody(body, whole, llmRequestNames, (reading) => done(modelOf(reading, head)));
    }
  });
}

function modelOf(reading: JsonReading, head: ModelHead): ModelReading {
  const llm = readLlmRequest(reading);
  if (typeof llm !== "string") return readingOf(llm, head.path);
  return { kind: "rejected", reply: isEncoded(head.rawHeaders) ? bodyEncoded : unreadableBody(llm) };
}

function readingOf(request: LlmRequest, path: string, isWhole = true): ModelReading {
  const llm = withTargetModel(request, path);
  if (llm === "twoModels") return { kind: "rejected", reply: otherModelInTarget };
  return { kind: "read", llm, bodyModel: request.requestModel, isWhole };
}
