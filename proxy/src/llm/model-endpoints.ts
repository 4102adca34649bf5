/**
 * The model endpoints that respond immediately, from the documentation of their APIs.
 *
 * Under a token limit or a prescribed model an `ai` Backend serves only these endpoints and those that generate
 * nothing, unless it sets `otherEndpoints: Allow`. This is a list of what is allowed, since a list of what is rejected
 * would never be complete. The table also defines where an endpoint names its model, and whether its API has
 * `stream_options`.
 *
 * The streams of SageMaker are not listed: each message has any part of the output of a container, of any format.
 *
 * After decoding, a listed path has no `.`, `..` or empty segments, no parameters after `;` and no `\`, so that all
 * servers route it alike.
 */
import { decodedPath, pathnameOf } from "./provider-path.ts";

/** A group of endpoints that are treated alike. */
export interface ModelEndpoints {
  /** The APIs that document them. */
  readonly source: string;
  /** Path suffixes without the leading slash. `{model}` is a model name or the end of one, `*` any segment. */
  readonly paths: readonly string[];
  /** Where the model is named; `elsewhere`: by an agent, by another member, or in no way that the gateway could set. */
  readonly model: "body" | "path" | "elsewhere";
  /** The API has no `stream_options.include_usage`: its streams report their usage always or never. */
  readonly hasNoStreamOptions?: true;
}

/** The model endpoints, in groups that name their model alike. */
export const modelEndpoints: readonly ModelEndpoints[] = [
  {
    source: "OpenAI and the servers that speak its API: vLLM, SGLang, Ollama, TGI, llama.cpp, LiteLLM, Groq, Together",
    paths: ["chat/completions", "completions"],
    model: "body",
  },
  {
    source: "Mistral: fim/completions. llama.cpp: completion, infill",
    paths: ["fim/completions", "completion", "infill"],
    model: "body",
  },
  { source: "Mistral: agents/completions", paths: ["agents/completions"], model: "elsewhere" },
  {
    source: "vLLM, SGLang, TGI: the alias of completions that SageMaker requires",
    paths: ["invocations"],
    model: "body",
  },
  {
    source: "SageMaker, Databricks",
    paths: ["endpoints/{model}/invocations", "serving-endpoints/{model}/invocations"],
    model: "path",
  },
  {
    source: "OpenAI, Azure: responses. Anthropic, vLLM, LiteLLM: messages. Anthropic: complete. Gemini: interactions",
    paths: ["responses", "responses/compact", "messages", "complete", "interactions"],
    model: "body",
    hasNoStreamOptions: true,
  },
  {
    source: "OpenAI: images, audio. Together, xAI, LiteLLM too",
    paths: [
      "images/generations",
      "images/edits",
      "images/variations",
      "audio/speech",
      "audio/transcriptions",
      "audio/translations",
    ],
    model: "body",
    hasNoStreamOptions: true,
  },
  {
    source: "Embeddings, reranking, classification: OpenAI, Cohere, Jina, Voyage, vLLM, SGLang, TEI, llama.cpp",
    paths: [
      ...["embeddings", "embedding", "embed", "embed_all", "embed_sparse", "encode", "multimodalembeddings"],
      ...["contextualizedembeddings", "images/embeddings", "rerank", "reranking", "score", "pooling", "classify"],
      ...["classifications", "chat/classifications", "chat/moderations", "ocr", "predict", "similarity"],
    ],
    model: "body",
    hasNoStreamOptions: true,
  },
  {
    source: "Cohere: v1/chat, v2/chat, v1/generate, v1/summarize",
    paths: ["v1/chat", "v2/chat", "v1/generate", "v1/summarize"],
    model: "body",
    hasNoStreamOptions: true,
  },
  {
    source: "Ollama",
    paths: ["api/chat", "api/generate", "api/embed", "api/embeddings", "api/show"],
    model: "body",
    hasNoStreamOptions: true,
  },
  {
    source: "SGLang, TGI: generate. TGI: generate_stream. vLLM: inference/v1/generate",
    paths: ["generate", "generate_stream", "inference/v1/generate"],
    model: "body",
    hasNoStreamOptions: true,
  },
  {
    source: "Gemini, Vertex",
    paths: [
      ...["generateContent", "streamGenerateContent", "embedContent", "batchEmbedContents", "generateAnswer"],
      ...["predict", "serverStreamingPredict", "rawPredict", "streamRawPredict"],
    ].map((method) => `models/{model}:${method}`),
    model: "path",
    hasNoStreamOptions: true,
  },
  {
    source: "Vertex: models of others than Anthropic take the requests of their own APIs",
    paths: ["rawPredict", "streamRawPredict"].flatMap((method) =>
      ["meta", "mistralai", "ai21", "deepseek-ai", "qwen", "openai"].map(
        (publisher) => `publishers/${publisher}/models/{model}:${method}`,
      ),
    ),
    model: "path",
  },
  {
    source: "Gemini, Vertex: tuned models and endpoints",
    paths: ["generateContent", "streamGenerateContent", "predict", "rawPredict"].flatMap((method) => [
      `tunedModels/{model}:${method}`,
      `endpoints/{model}:${method}`,
    ]),
    model: "path",
    hasNoStreamOptions: true,
  },
  {
    source: "Bedrock",
    paths: ["invoke", "invoke-with-response-stream", "converse", "converse-stream"].map(
      (method) => `model/{model}/${method}`,
    ),
    model: "path",
    hasNoStreamOptions: true,
  },
  {
    source: "Triton, KServe",
    paths: ["infer", "generate", "generate_stream"].flatMap((method) => [
      `v2/models/{model}/${method}`,
      `v2/models/{model}/versions/*/${method}`,
    ]),
    model: "path",
    hasNoStreamOptions: true,
  },
  { source: "KServe: v1", paths: ["v1/models/{model}:predict"], model: "path", hasNoStreamOptions: true },
  {
    source: "Cloudflare: ai/run. DeepInfra: inference. Hugging Face: models",
    paths: [
      ...["ai/run/{model}", "ai/run/*/*/{model}", "v1/inference/{model}", "v1/inference/*/{model}"],
      ...["hf-inference/models/{model}", "hf-inference/models/*/{model}"],
    ],
    model: "path",
    hasNoStreamOptions: true,
  },
  {
    source: "watsonx, which names the model in model_id",
    paths: ["generation", "generation_stream", "chat", "chat_stream", "embeddings", "rerank"].map(
      (method) => `ml/v1/text/${method}`,
    ),
    model: "elsewhere",
    hasNoStreamOptions: true,
  },
  {
    source: "DashScope",
    paths: [
      "services/aigc/text-generation/generation",
      "services/aigc/multimodal-generation/generation",
      "services/embeddings/text-embedding/text-embedding",
      "services/rerank/text-rerank/text-rerank",
    ],
    model: "body",
    hasNoStreamOptions: true,
  },
  {
    source: "Mistral: conversations with a model or an agent. OpenAI: conversations, which store",
    paths: ["conversations", "conversations/*", "conversations/*/restart", "conversations/*/items"],
    model: "elsewhere",
    hasNoStreamOptions: true,
  },
  {
    source: "OpenAI: data that is stored for later requests, which are charged",
    paths: [
      ...["vector_stores", "vector_stores/*", "vector_stores/*/files", "vector_stores/*/files/*"],
      ...["vector_stores/*/search", "assistants", "assistants/*", "threads", "threads/*", "threads/*/messages"],
      ...["threads/*/messages/*", "containers", "containers/*/files"],
    ],
    model: "elsewhere",
    hasNoStreamOptions: true,
  },
];

/** Stands for the name of the prescribed model. No plain path contains it. */
const namePlaceholder = "\0";
const modelVariable = "{model}";
const anyEnd = "*";

/** The segments of a path in the table. */
interface EndpointPath {
  readonly endpoints: ModelEndpoints;
  /** The segments before the model name, or all of them. `*` matches any segment. */
  readonly prefix: readonly string[];
  readonly name?: ModelName;
}

interface ModelName {
  /** The text after the name in its last segment: `:generateContent`. */
  readonly method: string;
  readonly suffix: readonly string[];
}

/** The paths of the table by their end: a segment, `:method`, or `anyEnd`. */
const pathsByEnd: ReadonlyMap<string, readonly EndpointPath[]> = Map.groupBy(
  modelEndpoints.flatMap((endpoints) => endpoints.paths.map((path) => endpointPath(path, endpoints))),
  ({ prefix, name }) => {
    const end = name === undefined ? prefix.at(-1) : (name.suffix.at(-1) ?? name.method);
    return end === undefined || end === "" ? anyEnd : end;
  },
);

function endpointPath(path: string, endpoints: ModelEndpoints): EndpointPath {
  const segments = path.split("/");
  const at = segments.findIndex((segment) => segment.startsWith(modelVariable));
  if (at === -1) return { endpoints, prefix: segments };
  const method = segments[at]?.slice(modelVariable.length) ?? "";
  return { endpoints, prefix: segments.slice(0, at), name: { method, suffix: segments.slice(at + 1) } };
}

/** A path of the table that matches the end of a request path. */
interface MatchedEndpoint {
  readonly endpoints: ModelEndpoints;
  /** The path before it: `/openai/v1`, or an empty text. */
  readonly prefix: string;
  /** The name of the model. */
  readonly name: string | undefined;
  /** Returns the request path with this text in the place of the name. */
  readonly withName: (name: string) => string;
}

/** Returns all paths of the table that match the end of `plain`. */
function matchingEndpoints(plain: string): readonly MatchedEndpoint[] {
  const segments = segmentsOf(plain);
  const end = segments.at(-1) ?? "";
  const ends = [end, end.slice(end.lastIndexOf(":")), anyEnd];
  return ends.flatMap((pathEnd) => pathsByEnd.get(pathEnd) ?? []).flatMap((path) => matchPath(segments, path) ?? []);
}

/** Returns the segments of a plain path, of which the first is empty. A trailing slash is ignored. */
function segmentsOf(plain: string): readonly string[] {
  return (plain.endsWith("/") ? plain.slice(0, -1) : plain).split("/");
}

/** Matches one path of the table. Linear in the number of segments, since clients choose it. */
function matchPath(
  segments: readonly string[],
  { endpoints, prefix, name }: EndpointPath,
): MatchedEndpoint | undefined {
  const end = segments.length - (name?.suffix.length ?? 0);
  if (name !== undefined && !endsWithPattern(segments, segments.length, name.suffix)) return undefined;
  const nameStart = name === undefined ? end : startOfName(segments, end, prefix, name.method);
  if (nameStart === undefined || !endsWithPattern(segments, nameStart, prefix)) return undefined;
  const nameText = segments.slice(nameStart, end).join("/");
  return {
    endpoints,
    prefix: segments.slice(0, nameStart - prefix.length).join("/"),
    name: name && nameText.slice(0, nameText.length - name.method.length),
    withName: (text) =>
      [...segments.slice(0, nameStart), `${text}${name?.method ?? ""}`, ...segments.slice(end)].join("/"),
  };
}

/** Returns the index of the first segment of the name that follows `prefix` and ends before `end`. */
function startOfName(
  segments: readonly string[],
  end: number,
  prefix: readonly string[],
  method: string,
): number | undefined {
  const last = segments[end - 1];
  if (last === undefined || !last.endsWith(method) || last.length === method.length) return undefined;
  const hasMore = end < segments.length || method !== "";
  // In the middle of a path a name may contain slashes. Only its first segment may contain a colon, or the second one
  // of an Amazon Resource Name: `arn:aws:bedrock:REGION:ACCOUNT:inference-profile/NAME:0`.
  let segment = last.slice(0, last.length - method.length);
  for (let start = end - 1; start >= 1; start--) {
    if (endsWithPattern(segments, start, prefix)) return start;
    const before = segments[start - 1] ?? "";
    if (!hasMore || (segment.includes(":") && !before.startsWith("arn:"))) return undefined;
    segment = before;
  }
  return undefined;
}

/** Whether the segments before `end` match the pattern. */
function endsWithPattern(segments: readonly string[], end: number, pattern: readonly string[]): boolean {
  const start = end - pattern.length;
  if (start < 1) return false;
  for (let i = pattern.length - 1; i >= 0; i--) {
    const expected = pattern[i];
    const segment = segments[start + i] ?? "";
    if (expected === "*" ? segment === "" || segment.includes(":") : segment !== expected) return false;
  }
  return true;
}

/** Whether `path`, as the provider receives it, belongs to a listed endpoint. The query is ignored. */
export function isListedEndpoint(path: string): boolean {
  const plain = plainPath(path);
  if (plain === undefined) return false;
  // TGI's own API is at the root.
  return plain === "/" || matchingEndpoints(plain).length > 0;
}

/**
 * Whether `path`, as the client sent it, belongs to a listed endpoint that reads its model from the body, or names
 * `model`. The path before the endpoint must not name a model: it is a version, or the name of an API.
 */
export function servesModel(path: string, model: string): boolean {
  const plain = plainPath(path);
  if (plain === undefined) return false;
  const marked = withPlaceholder(plain, model);
  return matchingEndpoints(marked).some(
    ({ endpoints, prefix, name }) =>
      endpoints.model !== "elsewhere" &&
      (name === undefined || name === namePlaceholder) &&
      namelessPrefix.test(prefix),
  );
}

/**
 * Returns the path of a listed endpoint with `model` in the place of the model or deployment that it names, and
 * otherwise unchanged: `/model/NAME/converse` (Bedrock), `/v1beta/models/NAME:generateContent` (Gemini),
 * `/openai/deployments/NAME/chat/completions` (Azure). The caller must check the result with `servesModel`: the path
 * may name a model in another way too.
 *
 * @param path as the client sent it; the query is kept.
 */
export function withModel(path: string, model: string): string {
  const plain = plainPath(path);
  if (plain === undefined) return path;
  const name = encodeURIComponent(model);
  const candidates = matchingEndpoints(plain).map((endpoint) =>
    endpoint.name === undefined
      ? plain.replace(deploymentName, `$1${name.replaceAll("$", "$$$$")}`)
      : endpoint.withName(name),
  );
  const found = candidates.find((candidate) => servesModel(candidate, model));
  return found === undefined ? path : found + path.slice(pathnameOf(path).length);
}

/**
 * Returns the path of a listed endpoint with the name of its model escaped as one segment, and otherwise unchanged:
 * Bedrock receives `:` and `/` of a name as `%3A` and `%2F`, as from Amazon's own clients.
 */
export function withEscapedModel(path: string): string {
  const plain = plainPath(path);
  const found = plain === undefined ? undefined : matchingEndpoints(plain).find(({ name }) => name !== undefined);
  if (found?.name === undefined) return path;
  return found.withName(encodeURIComponent(found.name)) + path.slice(pathnameOf(path).length);
}

/** The deployment or engine that precedes an endpoint. */
const deploymentName = /^((?:\/[\w-]+)?\/(?:deployments|engines)\/)[^/]+(?=\/)/;

/**
 * Returns the model or deployment that the path of a listed endpoint names; undefined if it names none, or if servers
 * could find different names in it.
 */
export function modelOfPath(path: string): string | undefined {
  const plain = plainPath(path);
  if (plain === undefined) return undefined;
  const found = matchingEndpoints(plain);
  if (found.length === 0) return undefined;
  const names = new Set(found.flatMap(({ name }) => name ?? []));
  const deployment = deploymentName.exec(plain);
  if (deployment !== null) names.add(deployment[0].slice(deployment[1]?.length));
  const [name] = names;
  return names.size === 1 ? name : undefined;
}

/** Whether `path`, as the provider receives it, is of listed endpoints that name their model in the path alone. */
export function namesModelInPath(path: string): boolean {
  const plain = plainPath(path);
  const found = plain === undefined ? [] : matchingEndpoints(plain);
  return found.length > 0 && found.every(({ endpoints }) => endpoints.model === "path");
}

/**
 * Whether the path before an endpoint that generates nothing names no model but `model`. A server may route by that
 * prefix to a model, also for a path such as a token count or a file.
 */
export function isPrefixForModel(prefix: string, model: string): boolean {
  return freeEndpointPrefix.test(withPlaceholder(prefix, model));
}

const namingSegments = "models?|deployments|engines|endpoints|serving-endpoints|tunedModels|inference|run";

/** Versions and names of APIs, and segments with the prescribed model: `/openai/v1`, `/openai/deployments/NAME`. */
const namelessSegments =
  String.raw`v\d+(?:(?:alpha|beta)\d*)?|api|openai|anthropic|beta|inference|compat|compatible-mode|compatibility|paas` +
  String.raw`|ml|serving-endpoints|models|engines(?=/v\d)|publishers/[\w-]+|(?:${namingSegments})/${namePlaceholder}`;
const namelessPrefix = new RegExp(`^(?:/(?:${namelessSegments}))*$`);

/** The prefixes of free endpoints. The cancellation of runs, jobs and batches has further segments. */
const freeEndpointPrefix = new RegExp(
  String.raw`^(?:/(?:${namelessSegments}|threads/[\w-]+|fine_tuning|batch|projects/[\w-]+/locations/[\w-]+))*$`,
);

/** Replaces `model` by the placeholder if the segment before it is one that a name follows. */
function withPlaceholder(plain: string, model: string): string {
  for (const { 0: segment, index } of plain.matchAll(namingSegment)) {
    const start = index + segment.length;
    const rest = plain.slice(start + model.length);
    if (plain.startsWith(model, start) && /^(?:$|[/:])/.test(rest)) {
      return plain.slice(0, start) + namePlaceholder + rest;
    }
  }
  return plain;
}

const namingSegment = new RegExp(`/(?:${namingSegments})/`, "g");

/**
 * Whether `path` belongs to an API without `stream_options`. False for paths with escapes, which a server that does
 * not decode them could route differently.
 */
export function hasNoStreamOptions(path: string): boolean {
  const plain = plainPath(path);
  if (plain === undefined || path.includes("%")) return false;
  const found = matchingEndpoints(plain);
  return found.length > 0 && found.every(({ endpoints }) => endpoints.hasNoStreamOptions === true);
}

/** Returns the decoded path if all servers interpret it alike. */
function plainPath(path: string): string | undefined {
  const { text, isDecoded } = decodedPath(path);
  return isDecoded && unambiguousPath.test(text) && !ambiguousSegment.test(text) ? text : undefined;
}

const unambiguousPath = /^\/[\w\-./:~@!$&'()*+,=]*$/;
const ambiguousSegment = /\/(?:\.{0,2})(?=\/)|\/\.{1,2}$/;
