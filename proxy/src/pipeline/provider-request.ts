/**
 * Prepares requests for models. For an `ai` backend: the path prefix, the credentials, the model, and the request for
 * the usage of a stream. For any other backend, only this request, if a limit counts tokens.
 *
 * A request is edited or rejected. If the Backend prescribes a model, or the path may be one of completions, a body
 * that the gateway cannot buffer, read and edit gets 4xx, with any method, encoding or content type. So does work whose
 * tokens no response would report, under a limit that counts them, unless the Backend allows it. A backend other than
 * `ai` may serve more than models, so there only paths of model APIs are rejected. An edited body gets the content type
 * of the JSON in UTF-8 that was read, so that no other content type changes its meaning.
 */
import type { AiBackend, AwsSignature } from "../ir/snapshot.ts";
import type { UsageChunk } from "../ir/usage.ts";
import {
  type AiRequest,
  type AiRequestRules,
  aiRequestNames,
  maxAiRequestBytes,
  bodyNeeded,
  mayBeginObject,
  prepareAiRequest,
  type AiRequestError,
} from "../llm/ai-request.ts";
import { prefixOfFreeEndpoint, generatesNothing } from "../llm/charging.ts";
import { isDeferringField, mayDeferWork } from "../llm/deferred-work.ts";
import { withSignature } from "../llm/aws-signature.ts";
import {
  isPrefixForModel,
  isListedEndpoint,
  namesModelInPath,
  servesModel,
  withEscapedModel,
  withModel,
} from "../llm/model-endpoints.ts";
import { clientApi } from "../llm/client-api.ts";
import { withRealtimeModel } from "../llm/request-target.ts";
import { isWebSocket } from "../listen/upgrade-protocol.ts";
import { withApiVersion, withCredentials } from "../llm/provider-credentials.ts";
import {
  isModelField,
  mayBeCompletions,
  mayBeModelApi,
  pathNamesOtherModel,
  queryNamesOtherModel,
} from "../llm/provider-path.ts";
import type { UsageEdit } from "../llm/usage-event-filter.ts";
import { isEncoded } from "./body/body-encoding.ts";
import { readBody } from "./body/body-reading.ts";
import {
  bodyEncoded,
  bodyMemoryFull,
  deferredWorkNotAllowed,
  endpointNotListed,
  modelMissing,
  otherModel,
  type LocalReply,
  bodyNotBuffered,
  unreadableBody,
  upgradeNotAllowed,
} from "./local-replies.ts";
import type { RequestBody } from "./body/request-body.ts";

/** A request with what is sent as its body, from the first byte as often as it must be. */
export interface OutgoingRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** Flat, without hop-by-hop fields. */
  readonly headers: readonly string[];
  readonly body: RequestBody | undefined;
  /** The protocol that the client asks to go on with. */
  readonly upgrade: string | undefined;
}

/** Ready to be sent, or rejected; `usageEdit`: the stream has an event that the client did not request. */
export type ProviderRequest =
  | { readonly kind: "ready"; readonly request: OutgoingRequest; readonly usageEdit: UsageEdit | undefined }
  | { readonly kind: "rejected"; readonly reply: LocalReply };

/** A backend that may be asked for the work of a model. */
export interface ModelBackend {
  /** Absent: it is not an `ai` Backend, and a limit counts its tokens. */
  readonly ai: AiBackend | undefined;
  /** Whether a limit counts the tokens of the response. */
  readonly countsTokens: boolean;
  readonly usageChunk: UsageChunk;
  /** Wall time, ms since the epoch, for signatures. */
  readonly nowMs: () => number;
  /** Called if a request could not be signed. */
  readonly onFault: (error: unknown) => void;
}

/**
 * @param request as another backend would get it.
 * @param done called once, perhaps at once; never when the client leaves meanwhile.
 */
export function prepareProviderRequest(
  backend: ModelBackend,
  received: OutgoingRequest,
  done: (prepared: ProviderRequest) => void,
): void {
  const { ai } = backend;
  const request = ai === undefined ? received : withPrescribedPath(ai, received);
  prepareUnsigned(backend, request, ai?.signature === undefined ? done : signing(backend, ai.signature, done));
}

/** The APIs that name the model in the path get the prescribed one there, as others get it in the body. */
function withPrescribedPath({ provider, model, models }: AiBackend, request: OutgoingRequest): OutgoingRequest {
  const namesModel = provider === "azure" || provider === "gemini" || provider === "bedrock";
  const isChosen = models !== undefined && model !== undefined;
  if (isChosen && request.upgrade !== undefined) return { ...request, path: withRealtimeModel(request.path, model) };
  if (!namesModel || (model === undefined && provider !== "bedrock")) return request;
  const { path } = request;
  return { ...request, path: model === undefined ? withEscapedModel(path) : withModel(path, model) };
}

/**
 * Returns a `done` that signs requests. The body of a signed request has been read, since the signature contains its
 * hash.
 */
function signing({ nowMs, onFault }: ModelBackend, signature: AwsSignature, done: Done): Done {
  return (prepared) => {
    if (prepared.kind === "rejected") {
      done(prepared);
      return;
    }
    const { request } = prepared;
    const sign = (body: Buffer): void => {
      withSignature(signature, { ...request, body }, nowMs()).then(
        (headers) => done({ ...prepared, request: { ...request, headers } }),
        onFault,
      );
    };
    const { body } = request;
    if (body === undefined) {
      sign(Buffer.alloc(0));
      return;
    }
    body.collect((whole) => {
      if (whole === undefined) done({ kind: "rejected", reply: bodyNotBuffered(body) });
      else sign(whole);
    });
  };
}

function prepareUnsigned(backend: ModelBackend, request: OutgoingRequest, done: Done): void {
  const { ai } = backend;
  const rejection = ai === undefined ? undefined : rejectionOf(ai, backend.countsTokens, request);
  if (rejection !== undefined) {
    done({ kind: "rejected", reply: rejection });
    return;
  }
  const addressed = ai === undefined ? request : withCountableFrames(backend, addressedTo(ai, request));
  const rules =
    ai === undefined ? rulesOfAnyServer(addressed) : rulesOfProvider(ai, backend.countsTokens, addressed.path);
  const { body } = addressed;
  if (addressed.upgrade !== undefined && ai === undefined && rules.rejectsDeferred) {
    done({ kind: "rejected", reply: upgradeNotAllowed });
  } else if (defersWork(addressed, rules, ai !== undefined)) {
    done({ kind: "rejected", reply: deferredWorkNotAllowed });
  } else if (body === undefined) {
    done({ kind: "ready", request: addressed, usageEdit: undefined });
  } else {
    prepareBody(backend, rules, { ...addressed, body }, done);
  }
}

/** Under a token limit no extension is offered to the backend, since the gateway could not read compressed frames. */
function withCountableFrames({ countsTokens }: ModelBackend, request: OutgoingRequest): OutgoingRequest {
  if (!countsTokens || !isWebSocket(request.upgrade)) return request;
  return { ...request, headers: without(request.headers, webSocketExtensions) };
}

const webSocketExtensions: ReadonlySet<string> = new Set(["sec-websocket-extensions"]);

type RequestWithBody = OutgoingRequest & { readonly body: RequestBody };
type Done = (prepared: ProviderRequest) => void;

function prepareBody(backend: ModelBackend, rules: AiRequestRules, request: RequestWithBody, done: Done): void {
  if (isUncountable(backend, request)) {
    done({ kind: "rejected", reply: bodyEncoded });
    return;
  }
  const needed = backend.ai?.signature === undefined ? bodyNeeded(rules, request.path) : "all";
  if (needed === "none" || (needed === "object" && passesUnread(backend, request))) {
    passBody(request, done);
  } else if (needed === "all" || isEncoded(request.headers)) {
    editBody(backend, rules, request, done);
  } else {
    request.body.peek((start) => {
      if (mayBeginObject(start)) editBody(backend, rules, request, done);
      else passBody(request, done);
    });
  }
}

/**
 * Whether a limit counts the tokens of an API whose request is compressed: neither its input nor what it asks for is
 * known.
 */
function isUncountable({ ai, countsTokens }: ModelBackend, { path, headers }: OutgoingRequest): boolean {
  if (!countsTokens || !isEncoded(headers)) return false;
  return ai === undefined ? mayBeModelApi(path) || isListedEndpoint(path) : !generatesNothing(path);
}

/** gRPC calls may wait for responses before they send more, and have no JSON. */
function passesUnread({ ai }: ModelBackend, { headers }: OutgoingRequest): boolean {
  return (
    ai === undefined && someField(headers, (name, value) => isContentType(name) && /^application\/grpc/i.test(value))
  );
}

function passBody(request: RequestWithBody, done: Done): void {
  request.body.whenReady(request.headers, (isReady) => {
    if (isReady) done({ kind: "ready", request, usageEdit: undefined });
    else done({ kind: "rejected", reply: bodyMemoryFull });
  });
}

function editBody(backend: ModelBackend, rules: AiRequestRules, request: RequestWithBody, done: Done): void {
  const { path, body, headers } = request;
  const mustBeRead = backend.ai !== undefined || mayBeModelApi(path);
  if (isEncoded(headers)) {
    if (mustBeRead) done({ kind: "rejected", reply: bodyEncoded });
    else passBody(request, done);
    return;
  }
  body.keepUpTo(maxAiRequestBytes);
  body.collect((whole) => {
    if (whole === undefined) {
      done({ kind: "rejected", reply: bodyNotBuffered(body) });
    }
    // Nothing is said of a model where nothing is said, as when a batch is cancelled.
    else if (whole.length === 0 && !mayBeCompletions(path)) {
      done({ kind: "ready", request, usageEdit: undefined });
    } else {
      readBody(body, whole, aiRequestNames, (reading) => {
        if (reading.kind === "notObject" && !mustBeRead) done({ kind: "ready", request, usageEdit: undefined });
        else done(withPreparedBody(backend, request, whole, prepareAiRequest(rules, path, reading)));
      });
    }
  });
}

function rejectionOf(ai: AiBackend, countsTokens: boolean, request: OutgoingRequest): LocalReply | undefined {
  const { upgrade, path, headers } = request;
  if (upgrade !== undefined && ai.allowsUpgrades !== true) return upgradeNotAllowed;
  if (!mayGenerate(request) || isDeletion(request)) return undefined;
  const { model } = ai;
  if (model !== undefined && (queryNamesOtherModel(path, model) || someField(headers, choosesOther(model)))) {
    return otherModel;
  }
  const sent = `${ai.pathPrefix ?? ""}${path}`;
  if (needsModel(ai, request, sent)) return modelMissing(clientApi(path, headers, ai.provider));
  if (model !== undefined && servesModel(path, model)) return undefined;
  if (ai.allowsOtherEndpoints === true || opensTunnel(request) || isAllowedDeferral(ai, sent)) {
    return model !== undefined && pathNamesOtherModel(path, model) ? otherModel : undefined;
  }
  if (model !== undefined) {
    const front = prefixOfFreeEndpoint(path);
    if (front !== undefined && isPrefixForModel(front, model)) return undefined;
    return pathNamesOtherModel(path, model) ? otherModel : endpointNotListed;
  }
  const isServed = isListedEndpoint(sent) || generatesNothing(sent) || mayDeferWork(sent);
  return countsTokens && !isServed ? endpointNotListed : undefined;
}

/**
 * Whether the Backend offers certain models, and the request names none at an endpoint that could serve a default one.
 * A request that is allowed beside the endpoints of models may name none.
 */
function needsModel(ai: AiBackend, request: OutgoingRequest, sent: string): boolean {
  if (ai.models === undefined || ai.model !== undefined || opensTunnel(request)) return false;
  if (generatesNothing(sent) || isAllowedDeferral(ai, sent)) return false;
  return ai.allowsOtherEndpoints !== true || isListedEndpoint(sent) || mayBeCompletions(sent);
}

/** Deferred work has a list of its own. */
function isAllowedDeferral({ allowsDeferredWork }: AiBackend, path: string): boolean {
  return allowsDeferredWork === true && mayDeferWork(path);
}

function choosesOther(model: string): (name: string, value: string) => boolean {
  return (name, value) => isModelField(name) && value !== model;
}

function addressedTo(ai: AiBackend, request: OutgoingRequest): OutgoingRequest {
  const path = withApiVersion(`${ai.pathPrefix ?? ""}${request.path}`, ai.apiVersion);
  return withCredentials(ai, { ...request, path });
}

function rulesOfProvider(ai: AiBackend, countsTokens: boolean, path: string): AiRequestRules {
  const rejectsDeferred = (countsTokens || ai.model !== undefined) && ai.allowsDeferredWork !== true;
  // Gemini and Bedrock reject members that they do not know.
  const isModelInPath = (ai.provider === "gemini" || ai.provider === "bedrock") && namesModelInPath(path);
  return { model: ai.model, isModelInPath, rejectsDeferred, inspectsBody: countsTokens || ai.model !== undefined };
}

/** For a backend that may not be a provider: background work and protocols are rejected only at paths of models. */
function rulesOfAnyServer({ path }: OutgoingRequest): AiRequestRules {
  return { rejectsDeferred: mayBeModelApi(path), inspectsBody: true };
}

function defersWork(request: OutgoingRequest, { rejectsDeferred }: AiRequestRules, isProvider: boolean): boolean {
  if (isProvider && !rejectsDeferred) return false;
  const { path, headers } = request;
  if (opensTunnel(request) || !mayGenerate(request) || generatesNothing(path) || isDeletion(request)) return false;
  return mayDeferWork(path, isProvider) || (rejectsDeferred && someField(headers, isDeferringField));
}

/**
 * Whether all that the request asks for is a switch. A provider may ignore the switch, and serve a POST as any other.
 */
function opensTunnel({ method, upgrade }: OutgoingRequest): boolean {
  return upgrade !== undefined && method === "GET";
}

/** Deletions are free: the deleted object was charged, or rejected, when it was created. */
function isDeletion({ method, body }: OutgoingRequest): boolean {
  return method === "DELETE" && body === undefined;
}

/** Whether the request may ask a model for something, rather than for what is known of it. */
function mayGenerate({ method, body, upgrade }: OutgoingRequest): boolean {
  return (
    body !== undefined || upgrade !== undefined || !(method === "GET" || method === "HEAD" || method === "OPTIONS")
  );
}

function withPreparedBody(
  { ai, usageChunk }: ModelBackend,
  request: RequestWithBody,
  whole: Buffer,
  prepared: AiRequest | AiRequestError,
): ProviderRequest {
  if (typeof prepared === "string") return { kind: "rejected", reply: unreadableBody(prepared) };
  const { body, requestsUsage } = prepared;
  if (ai === undefined && body === whole) return { kind: "ready", request, usageEdit: undefined };
  if (!request.body.replaceBy(body)) return { kind: "rejected", reply: bodyMemoryFull };
  const usageEdit = requestsUsage && usageChunk !== "Pass" ? usageChunk : undefined;
  const headers = without(request.headers, replacedFields(request.headers, usageEdit));
  headers.push("content-length", String(body.length));
  if (!isLabelledJson(headers)) headers.push("content-type", "application/json");
  // A compressed stream could not be edited.
  if (usageEdit !== undefined) headers.push("accept-encoding", "identity");
  return { kind: "ready", request: { ...request, headers }, usageEdit };
}

function replacedFields(headers: readonly string[], usageEdit: UsageEdit | undefined): ReadonlySet<string> {
  const names = new Set(["content-length"]);
  if (!isLabelledJson(headers)) names.add("content-type");
  if (usageEdit !== undefined) names.add("accept-encoding");
  return names;
}

/** Whether the only content type is JSON, in UTF-8 if it names a charset. */
function isLabelledJson(headers: readonly string[]): boolean {
  const labels = headers.filter((_, at) => at % 2 === 1 && headers[at - 1]?.toLowerCase() === "content-type");
  return labels.length === 1 && jsonType.test((labels[0] ?? "").trim());
}

const jsonType = /^application\/(?:[\w.-]+\+)?json\s*(?:;\s*charset\s*=\s*"?utf-?8"?\s*)?;?$/i;

function isContentType(name: string): boolean {
  return name.length === 12 && name.toLowerCase() === "content-type";
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
