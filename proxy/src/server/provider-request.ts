/**
 * What an `ai` backend changes on the way to a provider: where the API lives, whose key pays, which model answers, and
 * that a stream tells its usage. What it edits it must be able to read, so a body that cannot be held or read is refused
 * rather than let past the budget.
 */
import type { AiBackend } from "../ir/snapshot.ts";
import { isCompletions, maxAiRequestBytes, needsBody, prepareAiRequest } from "../llm/ai-request.ts";
import { bodyEncoded, bodyNotObject, bodyTooLarge, type OwnAnswer } from "./own-answers.ts";
import type { RequestBody } from "./request-body.ts";

/** A request with what is sent as its body, from the first byte as often as it must be. */
export interface OutgoingRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** Flat, without hop-by-hop fields. */
  readonly headers: readonly string[];
  readonly body: Buffer | RequestBody | undefined;
  /** The protocol that the client asks to go on with. */
  readonly upgrade: string | undefined;
}

/** Ready to be sent, or refused; `asksUsage`: the answer has an event that the client did not ask for. */
export type ProviderRequest =
  | { readonly kind: "ready"; readonly request: OutgoingRequest; readonly asksUsage: boolean }
  | { readonly kind: "refused"; readonly answer: OwnAnswer };

/**
 * @param request as another backend would get it.
 * @param done called once, perhaps at once; never when the client leaves meanwhile.
 */
export function prepareProviderRequest(
  ai: AiBackend,
  request: OutgoingRequest & { readonly body: RequestBody | undefined },
  done: (prepared: ProviderRequest) => void,
): void {
  const { body } = request;
  const addressed = {
    ...request,
    path: `${ai.pathPrefix ?? ""}${request.path}`,
    headers: withCredentials(ai, request.headers),
  };
  const pass = (): void => done({ kind: "ready", request: addressed, asksUsage: false });
  if (body === undefined) pass();
  else if (request.method !== "POST" || !needsBody(ai, addressed.path)) body.whenReady(request.headers, pass);
  else if (isEncoded(request.headers)) done({ kind: "refused", answer: bodyEncoded });
  else {
    body.keepUpTo(maxAiRequestBytes);
    body.collect((whole) => {
      if (whole === undefined) done({ kind: "refused", answer: bodyTooLarge });
      else done(withEditedBody(ai, addressed, whole));
    });
  }
}

function withEditedBody(ai: AiBackend, request: OutgoingRequest, original: Buffer): ProviderRequest {
  const prepared = prepareAiRequest(ai, request.path, original);
  if (prepared === undefined && isMeantAsJson(request, original)) {
    return { kind: "refused", answer: bodyNotObject };
  }
  const { body, asksUsage } = prepared ?? { body: original, asksUsage: false };
  const headers = without(request.headers, asksUsage ? lengthAndCoding : length);
  headers.push("content-length", String(body.length));
  // What is hidden in a stream must come readable.
  if (asksUsage) headers.push("accept-encoding", "identity");
  return { kind: "ready", request: { ...request, headers, body }, asksUsage };
}

/** Whether a server may read a body as JSON, in whatever encoding; beside the completions there are files and forms. */
function isMeantAsJson({ path, headers }: OutgoingRequest, body: Buffer): boolean {
  if (isCompletions(path)) return true;
  return body.length > 0 && someField(headers, "content-type", (value) => value.includes("json"));
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
  return someField(headers, "content-encoding", (value) => value !== "identity");
}

/** Whether one of the fields of that name `accepts`, which gets its value in lower case. */
function someField(headers: readonly string[], name: string, accepts: (value: string) => boolean): boolean {
  return headers.some(
    (field, at) => at % 2 === 0 && field.toLowerCase() === name && accepts((headers[at + 1] ?? "").toLowerCase()),
  );
}

function without(headers: readonly string[], names: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] ?? "";
    if (!names.has(name.toLowerCase())) kept.push(name, headers[i + 1] ?? "");
  }
  return kept;
}
