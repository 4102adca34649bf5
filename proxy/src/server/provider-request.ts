/**
 * What an `ai` backend changes on the way to a provider: where the API lives, whose key pays, which model answers, and
 * that a stream tells its usage. What it edits it must be able to read, so a body that cannot be held or read is refused
 * rather than let past the budget.
 */
import type { AiBackend } from "../ir/snapshot.ts";
import { maxAiRequestBytes, needsBody, prepareAiRequest } from "../llm/ai-request.ts";
import type { UpstreamRequest } from "../upstream/call.ts";
import { bodyEncoded, bodyTooLarge, type OwnAnswer } from "./own-answers.ts";
import { type BodySource, readBody, takeBody } from "./request-body.ts";

/** Ready to be sent, or refused; `asksUsage`: the answer has an event that the client did not ask for. */
export type ProviderRequest =
  | { readonly kind: "ready"; readonly request: UpstreamRequest; readonly asksUsage: boolean }
  | { readonly kind: "refused"; readonly answer: OwnAnswer };

/** @param done called once, perhaps at once; never when the client leaves meanwhile. */
export function prepareProviderRequest(
  ai: AiBackend,
  request: UpstreamRequest,
  body: BodySource | undefined,
  done: (prepared: ProviderRequest) => void,
): void {
  const addressed = {
    ...request,
    path: `${ai.pathPrefix ?? ""}${request.path}`,
    headers: withCredentials(ai, request.headers),
  };
  const pass = (sent: UpstreamRequest): void => done({ kind: "ready", request: sent, asksUsage: false });
  if (body === undefined) pass(addressed);
  else if (request.method !== "POST" || !needsBody(ai, request.path)) {
    takeBody(body, request.headers, (taken) => pass({ ...addressed, body: taken }));
  } else if (isEncoded(request.headers)) done({ kind: "refused", answer: bodyEncoded });
  else {
    readBody(body, maxAiRequestBytes, (taken) => {
      if (Buffer.isBuffer(taken)) done(withEditedBody(ai, request.path, addressed, taken));
      else {
        taken.destroy();
        done({ kind: "refused", answer: bodyTooLarge });
      }
    });
  }
}

function withEditedBody(ai: AiBackend, path: string, request: UpstreamRequest, original: Buffer): ProviderRequest {
  const { body, asksUsage } = prepareAiRequest(ai, path, original);
  const headers = without(request.headers, asksUsage ? lengthAndCoding : length);
  headers.push("content-length", String(body.length));
  // What is hidden in a stream must come readable.
  if (asksUsage) headers.push("accept-encoding", "identity");
  return { kind: "ready", request: { ...request, headers, body }, asksUsage };
}

/** The provider's own way of saying the key. The client's credentials never travel beside ours. */
function withCredentials(ai: AiBackend, headers: readonly string[]): readonly string[] {
  if (ai.apiKey === undefined) return headers;
  const kept = without(headers, credentials);
  if (ai.provider === "anthropic") kept.push("x-api-key", ai.apiKey.secret);
  else kept.push("authorization", `Bearer ${ai.apiKey.secret}`);
  return kept;
}

const credentials: ReadonlySet<string> = new Set(["authorization", "x-api-key"]);
const length: ReadonlySet<string> = new Set(["content-length"]);
const lengthAndCoding: ReadonlySet<string> = new Set(["content-length", "accept-encoding"]);

function isEncoded(headers: readonly string[]): boolean {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() === "content-encoding") return headers[i + 1]?.toLowerCase() !== "identity";
  }
  return false;
}

function without(headers: readonly string[], names: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] ?? "";
    if (!names.has(name.toLowerCase())) kept.push(name, headers[i + 1] ?? "");
  }
  return kept;
}
