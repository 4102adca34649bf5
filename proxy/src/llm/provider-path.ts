/**
 * Reads the path of a request to an LLM provider as the most tolerant server would.
 *
 * Servers decode `%2F` before they route (Starlette, gin), ignore case (ASP.NET, Express), take `\` for `/`, drop
 * `;parameters` (servlets) and trailing slashes. A request that one of them takes for a completion is treated as one, so
 * the answer errs on the side of the limit: it says yes too often rather than too rarely.
 */

/** How often escapes are undone: `%252F` is a slash to a server behind a server. */
const maxDecodings = 4;
const escape = /%([\da-f]{2})/gi;

/**
 * Whether some server could route `path` to completions, of chats or of texts: both leave their usage out of streams.
 *
 * @param path as the provider gets it; the query does not matter.
 */
export function mayBeCompletions(path: string): boolean {
  const { text, isDecoded } = decodedPath(path);
  return !isDecoded || text.toLowerCase().includes("completion");
}

/**
 * Whether some server could route `path` to an API of models: completions, responses, messages, embeddings, interactions,
 * realtime sessions. Decides for backends of which nothing else tells that they are providers.
 *
 * @param path as the backend gets it; the query does not matter.
 */
export function mayBeOfModels(path: string): boolean {
  const { text, isDecoded } = decodedPath(path);
  return !isDecoded || modelApi.test(text);
}

const modelApi =
  /completion|[/\\](?:responses?|messages|embeddings?|interactions?|realtime|invocations(?:-response-stream)?)(?![\w-])/i;

/**
 * Whether the path of a request names a model or a deployment other than `model`: `/openai/deployments/NAME/…` (Azure),
 * `/models/NAME:generateContent` (Gemini), `/model/NAME/invoke` (Bedrock).
 *
 * @param path as the client sent it, without what the Backend puts in front.
 */
export function pathNamesOtherModel(path: string, model: string): boolean {
  const pathname = pathnameOf(path);
  if (!modelSegment.test(pathname) && !pathname.includes("%")) return false;
  const { text, isDecoded } = decoded(pathname);
  if (!isDecoded) return true;
  for (const { index, 0: segment } of text.matchAll(modelSegments)) {
    const name = text.slice(index + segment.length);
    const rest = name.slice(model.length);
    if (!name.startsWith(model) || !/^(?:$|[:\\;]|\/[^:]*$)/.test(rest)) return true;
  }
  return false;
}

/** Whether its query does: `?model=NAME`. */
export function queryNamesOtherModel(path: string, model: string): boolean {
  return inQuery(path.slice(pathnameOf(path).length + 1), model);
}

/**
 * Whether a header field names a model, a deployment or a configuration that has some: Azure's `azureml-model-deployment`,
 * SageMaker's `x-amzn-sagemaker-target-model`, Vercel's `ai-language-model-id`, Portkey's `x-portkey-config`.
 */
export function isModelField(name: string): boolean {
  return modelField.test(name);
}

const modelField =
  /(?:^|-)(?:models?|deployments?|fallbacks?|target-variant|inference-component|lora|adapter)(?:-|$)|^x-portkey-config$/i;

/** A segment behind which a name follows. */
const modelSegment =
  /[/\\](?:models?|deployments?|engines?(?![/\\]v\d)|tunedModels|endpoints|serving-endpoints|inference(?![/\\]v\d)|run)(?:;[^/\\]*)?[/\\]+(?=[^/\\])/i;
const modelSegments = new RegExp(modelSegment, "gi");

function inQuery(query: string, model: string): boolean {
  if (query === "") return false;
  return query.split(/[&;]/).some((pair) => {
    const [name = "", ...value] = pair.split("=");
    const { text, isDecoded } = decoded(name);
    if (isDecoded && !/^(?:model|deployment|engine)(?:s|[-_]?(?:id|name))?(?:\[|$)/i.test(text.trim())) return false;
    return decoded(value.join("=").replaceAll("+", " ")).text !== model;
  });
}

function pathnameOf(path: string): string {
  const query = path.indexOf("?");
  return query === -1 ? path : path.slice(0, query);
}

/** A path without its query and without escapes; `isDecoded` is false where there are more layers than are undone. */
export function decodedPath(path: string): Decoded {
  return decoded(pathnameOf(path));
}

/** The same of the query. */
export function decodedQuery(path: string): Decoded {
  return decoded(path.slice(pathnameOf(path).length + 1));
}

interface Decoded {
  readonly text: string;
  readonly isDecoded: boolean;
}

/** Undoes escapes until none is left, byte for byte; `isDecoded` is false where there are more layers than that. */
function decoded(text: string): Decoded {
  let now = text;
  for (let round = 0; round <= maxDecodings; round++) {
    if (!now.includes("%")) return { text: now, isDecoded: true };
    const next = now.replace(escape, (_escape, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
    if (next === now) return { text: now, isDecoded: true };
    now = next;
  }
  return { text: now, isDecoded: false };
}
