/**
 * Reads the model and the stream option from the body, for limits that are about them. The body is buffered for that. A body
 * that cannot be read must not get past such a limit, so its request is rejected.
 */
import type { RequestView } from "../../cel/request-view.ts";
import { headerOf } from "../../cel/variables.ts";
import { maxAiRequestBytes } from "../../llm/ai-request.ts";
import { hasNoModel, type LlmRequest, llmRequestNames, readLlmRequest } from "../../llm/llm-request.ts";
import type { JsonReading } from "../../llm/request-json.ts";
import { readBody } from "../body/body-reading.ts";
import type { RequestBody } from "../body/request-body.ts";
import { bodyEncoded, bodyNotBuffered, type LocalReply, unreadableBody } from "../local-replies.ts";
import type { Stage, StagedRequest } from "../stage.ts";

type ModelReading =
  | { readonly kind: "read"; readonly llm: LlmRequest }
  | { readonly kind: "rejected"; readonly reply: LocalReply };

export const requestModel: Stage = {
  name: "request model",
  run(request) {
    const body = request.takeBody();
    if (body === undefined) return setModel(request, {});
    body.keepUpTo(maxAiRequestBytes);
    return request.wait<ModelReading>({
      start: (done) => readModel(body, request.view, done),
      proceed: (reading) => (reading.kind === "read" ? setModel(request, reading.llm) : request.reply(reading.reply)),
      onAbandoned: () => request.reservation?.refund(),
    });
  },
};

/**
 * The model that the Backend prescribes takes the place of the client's. Of several providers it is that of the first in the
 * list, so that a limit by model counts a request alike, whichever provider responds.
 */
function setModel(request: StagedRequest, llm: LlmRequest): "continue" {
  const { target, providers } = request;
  const first = providers?.list.providers[0]?.target;
  const prescribed = (first ?? (target?.kind === "backend" ? target : undefined))?.ai?.model;
  request.llm = prescribed === undefined ? llm : { ...llm, requestModel: prescribed };
  return "continue";
}

function readModel(body: RequestBody, view: RequestView, done: (reading: ModelReading) => void): void {
  body.collect((whole) => {
    if (whole === undefined) {
      done({ kind: "rejected", reply: bodyNotBuffered(body) });
    } else if (hasNoModel(whole)) {
      done({ kind: "read", llm: {} });
    } else {
      readBody(body, whole, llmRequestNames, (reading) => done(modelOf(reading, view)));
    }
  });
}

function modelOf(reading: JsonReading, view: RequestView): ModelReading {
  const llm = readLlmRequest(reading);
  if (typeof llm !== "string") return { kind: "read", llm };
  return { kind: "rejected", reply: isEncoded(view) ? bodyEncoded : unreadableBody(llm) };
}

function isEncoded(view: RequestView): boolean {
  return (headerOf(view, "content-encoding")?.toLowerCase() ?? "identity") !== "identity";
}
