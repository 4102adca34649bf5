/**
 * Prepares the body. A request for a model is edited for its provider, or rejected (`provider-request.ts`). A small
 * body of any other request is read completely first, so that it is sent in one write with the head.
 */
import { defaultUsageChunk } from "../../ir/usage.ts";
import { bodyMemoryFull } from "../local-replies.ts";
import { prepareProviderRequest, type ProviderRequest } from "../provider-request.ts";
import { type OutgoingToBackend, outgoingOf, type Stage, type StagedRequest, type StageResult } from "../stage.ts";

/** Edits the body, or buffers it, or rejects the request. */
export const prepareBody: Stage = {
  name: "prepare body",
  run(request) {
    const outgoing = outgoingOf(request);
    if (outgoing.target.ai !== undefined || request.rule.countsTokens) return prepareForModel(request, outgoing);
    const { body, headers } = outgoing.request;
    if (body === undefined) return "continue";
    return request.wait<boolean>({
      start: (done) => body.whenReady(headers, done),
      proceed: (isReady) => (isReady ? "continue" : request.reply(bodyMemoryFull)),
    });
  },
};

function prepareForModel(request: StagedRequest, outgoing: OutgoingToBackend): StageResult {
  return request.wait<ProviderRequest>({
    start: (done) => prepareForTarget(request, outgoing, done),
    proceed(prepared) {
      if (prepared.kind === "rejected") return request.reply(prepared.reply);
      request.outgoing = { target: outgoing.target, request: prepared.request, usageEdit: prepared.usageEdit };
      return "continue";
    },
  });
}

/** Prepares a request for a model. @param done as for `prepareProviderRequest`. */
export function prepareForTarget(
  request: StagedRequest,
  { target: { ai }, request: outgoing }: Pick<OutgoingToBackend, "target" | "request">,
  done: (prepared: ProviderRequest) => void,
): void {
  const { countsTokens, usageChunk = ai?.usageChunk ?? defaultUsageChunk } = request.rule;
  const { clock } = request.services;
  const backend = {
    ...{ ai, countsTokens, usageChunk },
    nowMs: () => clock.nowMs(),
    onFault: (error: unknown) => request.fault(error),
  };
  outgoing.body?.countTokenIds();
  prepareProviderRequest(backend, outgoing, done);
}
