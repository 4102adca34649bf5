/**
 * Interprets the path of a request to an LLM provider like the most tolerant server does.
 *
 * Servers decode `%2F` before they route (Starlette, gin), ignore case (ASP.NET, Express), treat `\` as `/`, drop
 * `;parameters` (servlets) and trailing slashes. A request that one of them handles as a completion is treated as one.
 * In doubt the result is true, so that no request evades a limit.
 */

/** How often escapes are decoded: `%252F` is a slash for a server behind another server. */
const maxDecodings = 4;
const escape = /%([\da-f]{2})/gi;

/**
 * Whether some server could route `path` to chat or text completions. Both omit the usage from streams by default.
 *
 * @param path the path that the provider receives; the query is ignored.
 */
export function mayBeCompletions(path: string): boolean {
  const { text, isDecoded } = decodedPath(path);
  return !isDecoded || text.toLowerCase().includes("completion");
}

/**
 * Whether some server could route `path` to a model API: completions, responses, messages, embeddings, interactions,
 * realtime sessions. Used for backends that are not configured as providers.
 *
 * @param path the path that the backend receives; the query is ignored.
 */
export function mayBeModelApi(path: string): boolean {
  const { text, isDecoded } = decodedPath(path);
  return !isDecoded || modelApi.test(text);
}

const modelApi =
  /completion|[/\\](?:responses?|messages|embeddings?|interactions?|realtime|invocations(?:-response-stream)?)(?![\w-])/i;

/**
 * Whether the path of a request names a model or a deployment other than `model`: `/openai/deployments/NAME/…` (Azure),
 * `/models/NAME:generateContent` (Gemini), `/model/NAME/invoke` (Bedrock).
 *
 * @param path the path from the client, without the prefix of the Backend.
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

/** Whether the query of a path names a model other than `model`: `?model=NAME`. */
export function queryNamesOtherModel(path: string, model: string): boolean {
  return inQuery(path.slice(pathnameOf(path).length + 1), model);
}

/**
 * Whether a header field names a model, a deployment or a configuration with models: Azure's
 * `azureml-model-deployment`, SageMaker's `x-amzn-sagemaker-target-model`, Vercel's `ai-language-model-id`, Portkey's
 * `x-portkey-config`.
 */
export function isModelField(name: string): boolean {
  return modelField.test(name);
}

const modelField =
  /(?:^|-)(?:models?|deployments?|fallbacks?|target-variant|inference-component|lora|adapter)(?:-|$)|^x-portkey-config$/i;

/** A segment that is followed by a name. */
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

/** Returns a path without its query. */
export function pathnameOf(path: string): string {
  const query = path.indexOf("?");
  return query === -1 ? path : path.slice(0, query);
}

/**
 * Returns a path without its query, decoded; `isDecoded` is false if it has more than `maxDecodings` layers of escapes.
 */
export function decodedPath(path: string): Decoded {
  return decoded(pathnameOf(path));
}

/** Returns the query of a path, decoded. */
export function decodedQuery(path: string): Decoded {
  return decoded(path.slice(pathnameOf(path).length + 1));
}

interface Decoded {
  readonly text: string;
  readonly isDecoded: boolean;
}

/** Decodes escapes until none is left, one character per byte. `isDecoded` is false if there are more layers. */
function decoded(text: string): Decoded {
  let current = text;
  for (let round = 0; round <= maxDecodings; round++) {
    if (!current.includes("%")) return { text: current, isDecoded: true };
    const next = current.replace(escape, (_escape, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
    if (next === current) return { text: current, isDecoded: true };
    current = next;
  }
  return { text: current, isDecoded: false };
}
