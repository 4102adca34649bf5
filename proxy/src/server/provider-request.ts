/**
 * What an `ai` backend changes on the way to a provider: the path prefix, the API key, the model, and the question for the
 * usage of a stream.
 *
 * Rule: a request is edited or refused. Where the Backend prescribes a model, or the path may be one of completions, a
 * body that the gateway cannot hold, read and edit is answered with 4xx, whatever its method, encoding or content type.
 * So is work whose tokens no answer would tell, under a limit that counts them, unless the Backend allows it.
 * An edited body is labelled as the JSON in UTF-8 that was read, so that no label gives it another meaning.
 */
import type { AiBackend } from "../ir/snapshot.ts";
import {
  type AiRequest,
  aiRequestNames,
  maxAiRequestBytes,
  needsBody,
  prepareAiRequest,
  type Unedited,
} from "../llm/ai-request.ts";
import { generatesNothing } from "../llm/charging.ts";
import { isDeferringField, mayDeferWork } from "../llm/deferred-work.ts";
import { mayBeCompletions, namesOtherModel } from "../llm/provider-path.ts";
import { readBody } from "./body-reading.ts";
import {
  bodyEncoded,
  bodyMemoryFull,
  deferredWorkNotAllowed,
  otherModel,
  type OwnAnswer,
  unheldAnswer,
  uneditedAnswer,
  upgradeNotAllowed,
} from "./own-answers.ts";
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
 * @param countsTokens whether a limit counts the tokens of the answer.
 * @param done called once, perhaps at once; never when the client leaves meanwhile.
 */
export function prepareProviderRequest(
  ai: AiBackend,
  request: OutgoingRequest & { readonly body: RequestBody | undefined },
  countsTokens: boolean,
  done: (prepared: ProviderRequest) => void,
): void {
  const { body } = request;
  if (request.upgrade !== undefined && ai.allowsUpgrades !== true) {
    done({ kind: "refused", answer: upgradeNotAllowed });
    return;
  }
  if (ai.model !== undefined && mayGenerate(request) && namesOtherModel(request.path, ai.model)) {
    done({ kind: "refused", answer: otherModel });
    return;
  }
  const addressed = {
    ...request,
    path: `${ai.pathPrefix ?? ""}${request.path}`,
    headers: withCredentials(ai, request.headers),
  };
  const refusesDeferred = (countsTokens || ai.model !== undefined) && ai.allowsDeferredWork !== true;
  if (refusesDeferred && defersWork(addressed)) {
    done({ kind: "refused", answer: deferredWorkNotAllowed });
    return;
  }
  const pass = (): void => done({ kind: "ready", request: addressed, asksUsage: false });
  if (body === undefined) pass();
  else if (!needsBody(ai, addressed.path, refusesDeferred)) {
    body.whenReady(request.headers, (isReady) => {
      if (isReady) pass();
      else done({ kind: "refused", answer: bodyMemoryFull });
    });
  } else if (isEncoded(request.headers)) done({ kind: "refused", answer: bodyEncoded });
  else {
    body.keepUpTo(maxAiRequestBytes);
    body.collect((whole) => {
      if (whole === undefined) done({ kind: "refused", answer: unheldAnswer(body) });
      // Nothing is said of a model where nothing is said, as when a batch is cancelled.
      else if (whole.length === 0 && !mayBeCompletions(addressed.path)) {
        done({ kind: "ready", request: { ...addressed, body: whole }, asksUsage: false });
      } else
        readBody(body, whole, aiRequestNames, (reading) => {
          const prepared = prepareAiRequest(ai, addressed.path, reading, refusesDeferred);
          done(withPreparedBody({ ...addressed, body }, prepared));
        });
    });
  }
}

function defersWork(request: OutgoingRequest): boolean {
  const { path, headers, method, body, upgrade } = request;
  if (upgrade !== undefined || !mayGenerate(request) || generatesNothing(request)) return false;
  // What is deleted was charged, or refused, when it was made.
  if (method === "DELETE" && body === undefined) return false;
  return mayDeferWork(path) || someField(headers, isDeferringField);
}

/** Whether the request may ask a model for something, rather than for what is known of it. */
function mayGenerate({ method, body, upgrade }: OutgoingRequest): boolean {
  return (
    body !== undefined || upgrade !== undefined || !(method === "GET" || method === "HEAD" || method === "OPTIONS")
  );
}

function withPreparedBody(
  request: OutgoingRequest & { readonly body: RequestBody },
  prepared: AiRequest | Unedited,
): ProviderRequest {
  if (typeof prepared === "string") return { kind: "refused", answer: uneditedAnswer(prepared) };
  const { body, asksUsage } = prepared;
  if (!request.body.replaceBy(body)) return { kind: "refused", answer: bodyMemoryFull };
  const headers = without(request.headers, replacedFields(request.headers, asksUsage));
  headers.push("content-length", String(body.length));
  if (!isLabelledJson(headers)) headers.push("content-type", "application/json");
  // A compressed stream could not be edited.
  if (asksUsage) headers.push("accept-encoding", "identity");
  return { kind: "ready", request: { ...request, headers, body }, asksUsage };
}

function replacedFields(headers: readonly string[], asksUsage: boolean): ReadonlySet<string> {
  const names = new Set(["content-length"]);
  if (!isLabelledJson(headers)) names.add("content-type");
  if (asksUsage) names.add("accept-encoding");
  return names;
}

/** Whether the only content type is JSON, in UTF-8 if it names a charset. */
function isLabelledJson(headers: readonly string[]): boolean {
  const labels = headers.filter((_, at) => at % 2 === 1 && headers[at - 1]?.toLowerCase() === "content-type");
  return labels.length === 1 && jsonType.test(labels[0] ?? "");
}

const jsonType = /^\s*application\/(?:[\w.-]+\+)?json\s*(?:;\s*charset\s*=\s*"?utf-?8"?\s*)?;?\s*$/i;

/** The provider's own way of saying the key. The client's credentials never travel beside ours. */
function withCredentials(ai: AiBackend, headers: readonly string[]): readonly string[] {
  if (ai.apiKey === undefined) return headers;
  const kept = without(headers, credentials);
  if (ai.provider === "anthropic") kept.push("x-api-key", ai.apiKey.secret);
  else kept.push("authorization", `Bearer ${ai.apiKey.secret}`);
  return kept;
}

const credentials: ReadonlySet<string> = new Set(["authorization", "x-api-key"]);

function isEncoded(headers: readonly string[]): boolean {
  return someField(
    headers,
    (name, value) => name.toLowerCase() === "content-encoding" && value.toLowerCase() !== "identity",
  );
}

function someField(headers: readonly string[], accepts: (name: string, value: string) => boolean): boolean {
  return headers.some((name, at) => at % 2 === 0 && accepts(name, headers[at + 1] ?? ""));
}

function without(headers: readonly string[], names: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] ?? "";
    if (!names.has(name.toLowerCase())) kept.push(name, headers[i + 1] ?? "");
  }
  return kept;
}
