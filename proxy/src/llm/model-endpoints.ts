/**
 * The endpoints of models that answer at once, by the documentation of their APIs.
 *
 * Under a token limit or a prescribed model an `ai` Backend serves these endpoints and those that generate nothing, unless it
 * says `otherEndpoints: Allow`: a list of what is refused can never be complete. The table decides two more things: where an
 * endpoint names its model, and whether its streams tell their usage unasked.
 *
 * The streams of Bedrock and SageMaker are not listed: they are binary (`application/vnd.amazon.eventstream`), and the gateway
 * does not read the usage in them.
 *
 * A listed path is a plain one: it has no `.`, `..` or empty segments, no parameters behind `;` and no `\`, once its escapes
 * are undone. So every server routes it alike.
 */
import { decodedPath } from "./provider-path.ts";

/** A group of endpoints that are treated alike. */
export interface ModelEndpoints {
  /** Whose API documents them. */
  readonly source: string;
  /** Ends of paths, without the slash in front; `{model}` is the name of a model, or the end of one, `*` any segment. */
  readonly paths: readonly string[];
  /** Where the model is named; `elsewhere`: by an agent, by another member, or by nothing that the gateway could set. */
  readonly model: "body" | "path" | "elsewhere";
  /** Streams tell their usage unasked, or never, and their API has no `stream_options.include_usage`. */
  readonly isNeverAsked?: true;
}

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
    source: "vLLM, SGLang, TGI: the alias of completions that SageMaker asks for",
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
    isNeverAsked: true,
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
    isNeverAsked: true,
  },
  {
    source: "Embeddings, reranking, classification: OpenAI, Cohere, Jina, Voyage, vLLM, SGLang, TEI, llama.cpp",
    paths: [
      ...["embeddings", "embedding", "embed", "embed_all", "embed_sparse", "encode", "multimodalembeddings"],
      ...["contextualizedembeddings", "images/embeddings", "rerank", "reranking", "score", "pooling", "classify"],
      ...["classifications", "chat/classifications", "chat/moderations", "ocr", "predict", "similarity"],
    ],
    model: "body",
    isNeverAsked: true,
  },
  {
    source: "Cohere: v1/chat, v2/chat, v1/generate, v1/summarize",
    paths: ["v1/chat", "v2/chat", "v1/generate", "v1/summarize"],
    model: "body",
    isNeverAsked: true,
  },
  {
    source: "Ollama",
    paths: ["api/chat", "api/generate", "api/embed", "api/embeddings", "api/show"],
    model: "body",
    isNeverAsked: true,
  },
  {
    source: "SGLang, TGI: generate. TGI: generate_stream. vLLM: inference/v1/generate",
    paths: ["generate", "generate_stream", "inference/v1/generate"],
    model: "body",
    isNeverAsked: true,
  },
  {
    source: "Gemini, Vertex",
    paths: [
      ...["generateContent", "streamGenerateContent", "embedContent", "batchEmbedContents", "generateAnswer"],
      ...["predict", "serverStreamingPredict", "rawPredict", "streamRawPredict"],
    ].map((method) => `models/{model}:${method}`),
    model: "path",
    isNeverAsked: true,
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
    isNeverAsked: true,
  },
  {
    source: "Bedrock",
    paths: ["invoke", "converse"].map((method) => `model/{model}/${method}`),
    model: "path",
    isNeverAsked: true,
  },
  {
    source: "Triton, KServe",
    paths: ["infer", "generate", "generate_stream"].flatMap((method) => [
      `v2/models/{model}/${method}`,
      `v2/models/{model}/versions/*/${method}`,
    ]),
    model: "path",
    isNeverAsked: true,
  },
  { source: "KServe: v1", paths: ["v1/models/{model}:predict"], model: "path", isNeverAsked: true },
  {
    source: "Cloudflare: ai/run. DeepInfra: inference. Hugging Face: models",
    paths: [
      ...["ai/run/{model}", "ai/run/*/*/{model}", "v1/inference/{model}", "v1/inference/*/{model}"],
      ...["hf-inference/models/{model}", "hf-inference/models/*/{model}"],
    ],
    model: "path",
    isNeverAsked: true,
  },
  {
    source: "watsonx, which names the model in model_id",
    paths: ["generation", "generation_stream", "chat", "chat_stream", "embeddings", "rerank"].map(
      (method) => `ml/v1/text/${method}`,
    ),
    model: "elsewhere",
    isNeverAsked: true,
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
    isNeverAsked: true,
  },
  {
    source: "Mistral: conversations with a model or an agent. OpenAI: conversations, which store",
    paths: ["conversations", "conversations/*", "conversations/*/restart", "conversations/*/items"],
    model: "elsewhere",
    isNeverAsked: true,
  },
  {
    source: "OpenAI: what is stored for later requests, which are charged",
    paths: [
      ...["vector_stores", "vector_stores/*", "vector_stores/*/files", "vector_stores/*/files/*"],
      ...["vector_stores/*/search", "assistants", "assistants/*", "threads", "threads/*", "threads/*/messages"],
      ...["threads/*/messages/*", "containers", "containers/*/files"],
    ],
    model: "elsewhere",
    isNeverAsked: true,
  },
];

/** What stands for the name of the prescribed model; no plain path has it. */
const nameMark = "\0";
const modelPlace = "{model}";
const anyEnd = "*";

/** The segments of a path in the table. */
interface EndpointPath {
  readonly endpoints: ModelEndpoints;
  /** Those in front of the name of the model, or all of them. `*` stands for any. */
  readonly front: readonly string[];
  readonly name?: ModelName;
}

interface ModelName {
  /** What follows in the segment with the end of the name: `:generateContent`. */
  readonly method: string;
  readonly back: readonly string[];
}

/** By how they end: a segment, `:method`, or `anyEnd`. */
const pathsByEnd: ReadonlyMap<string, readonly EndpointPath[]> = Map.groupBy(
  modelEndpoints.flatMap((endpoints) => endpoints.paths.map((path) => endpointPath(path, endpoints))),
  ({ front, name }) => {
    const end = name === undefined ? front.at(-1) : (name.back.at(-1) ?? name.method);
    return end === undefined || end === "" ? anyEnd : end;
  },
);

function endpointPath(path: string, endpoints: ModelEndpoints): EndpointPath {
  const segments = path.split("/");
  const at = segments.findIndex((segment) => segment.startsWith(modelPlace));
  if (at === -1) return { endpoints, front: segments };
  const method = segments[at]?.slice(modelPlace.length) ?? "";
  return { endpoints, front: segments.slice(0, at), name: { method, back: segments.slice(at + 1) } };
}

/** A path of the table with which a path ends. */
interface Found {
  readonly endpoints: ModelEndpoints;
  /** What stands in front of it: `/openai/v1`, or nothing. */
  readonly front: string;
  /** Of the model. */
  readonly name: string | undefined;
}

/** All with which `plain` ends. */
function endpointsOf(plain: string): readonly Found[] {
  const segments = segmentsOf(plain);
  const end = segments.at(-1) ?? "";
  const ends = [end, end.slice(end.lastIndexOf(":")), anyEnd];
  return ends.flatMap((each) => pathsByEnd.get(each) ?? []).flatMap((path) => foundAt(segments, path) ?? []);
}

/** The segments of a plain path, the first of them empty. A slash at the end does not matter. */
function segmentsOf(plain: string): readonly string[] {
  return (plain.endsWith("/") ? plain.slice(0, -1) : plain).split("/");
}

/** Linear in the number of segments, since clients choose it. */
function foundAt(segments: readonly string[], { endpoints, front, name }: EndpointPath): Found | undefined {
  const end = segments.length - (name?.back.length ?? 0);
  if (name !== undefined && !areBefore(segments, segments.length, name.back)) return undefined;
  const nameStart = name === undefined ? end : startOfName(segments, end, front, name.method);
  if (nameStart === undefined || !areBefore(segments, nameStart, front)) return undefined;
  const named = segments.slice(nameStart, end).join("/");
  return {
    endpoints,
    front: segments.slice(0, nameStart - front.length).join("/"),
    name: name && named.slice(0, named.length - name.method.length),
  };
}

/** Where the name begins that ends before `end`, behind `front`. */
function startOfName(
  segments: readonly string[],
  end: number,
  front: readonly string[],
  method: string,
): number | undefined {
  const last = segments[end - 1];
  if (last === undefined || !last.endsWith(method) || last.length === method.length) return undefined;
  const hasMore = end < segments.length || method !== "";
  // In the middle of a path a name may have slashes. A colon is in its first segment at most.
  let segment = last.slice(0, last.length - method.length);
  for (let start = end - 1; start >= 1; start--) {
    if (areBefore(segments, start, front)) return start;
    if (!hasMore || segment.includes(":")) return undefined;
    segment = segments[start - 1] ?? "";
  }
  return undefined;
}

/** Whether the segments before `end` are those of the pattern. */
function areBefore(segments: readonly string[], end: number, pattern: readonly string[]): boolean {
  const start = end - pattern.length;
  if (start < 1) return false;
  for (let i = pattern.length - 1; i >= 0; i--) {
    const wanted = pattern[i];
    const segment = segments[start + i] ?? "";
    if (wanted === "*" ? segment === "" || segment.includes(":") : segment !== wanted) return false;
  }
  return true;
}

/** Whether `path`, as the provider gets it, is one of a listed endpoint. The query does not matter. */
export function isListed(path: string): boolean {
  const plain = plainPath(path);
  if (plain === undefined) return false;
  // TGI's own API is at the root.
  return plain === "/" || endpointsOf(plain).length > 0;
}

/**
 * Whether `path`, as the client sent it, is one of a listed endpoint that takes its model from the body, or names `model`. What
 * stands in front of the endpoint must name none: it is a version, or the name of an API.
 */
export function takesModel(path: string, model: string): boolean {
  const plain = plainPath(path);
  if (plain === undefined) return false;
  const marked = withMark(plain, model);
  return endpointsOf(marked).some(
    ({ endpoints, front, name }) =>
      endpoints.model !== "elsewhere" && (name === undefined || name === nameMark) && namelessFront.test(front),
  );
}

/**
 * Whether what stands in front of an endpoint that generates nothing names no model but `model`. A path of tokens that are
 * counted, or of a file, may be of a server that routes all that begins like it to a model.
 */
export function isFrontOf(front: string, model: string): boolean {
  return freeFront.test(withMark(front, model));
}

const naming = "models?|deployments|engines|endpoints|serving-endpoints|tunedModels|inference|run";

/** Versions and names of APIs, and places of the prescribed model: `/openai/v1`, `/openai/deployments/NAME`. */
const namelessSegments =
  String.raw`v\d+(?:(?:alpha|beta)\d*)?|api|openai|anthropic|beta|inference|compat|compatible-mode|compatibility|paas` +
  String.raw`|ml|serving-endpoints|models|engines(?=/v\d)|publishers/[\w-]+|(?:${naming})/${nameMark}`;
const namelessFront = new RegExp(`^(?:/(?:${namelessSegments}))*$`);

/** Runs, jobs and batches, which are cancelled, have further ones in front. */
const freeFront = new RegExp(
  String.raw`^(?:/(?:${namelessSegments}|threads/[\w-]+|fine_tuning|batch|projects/[\w-]+/locations/[\w-]+))*$`,
);

/** Puts the mark in the place of `model` where the segment in front of it says that a name follows. */
function withMark(plain: string, model: string): string {
  for (const { 0: segment, index } of plain.matchAll(nameFollows)) {
    const start = index + segment.length;
    const rest = plain.slice(start + model.length);
    if (plain.startsWith(model, start) && /^(?:$|[/:])/.test(rest)) return plain.slice(0, start) + nameMark + rest;
  }
  return plain;
}

const nameFollows = new RegExp(`/(?:${naming})/`, "g");

/**
 * Whether streams at `path` tell their usage unasked, or never: an API that is known to have no `stream_options`. The path has
 * no escapes, as a server that does not undo them could take it for another.
 */
export function isNeverAsked(path: string): boolean {
  const plain = plainPath(path);
  if (plain === undefined || path.includes("%")) return false;
  const found = endpointsOf(plain);
  return found.length > 0 && found.every(({ endpoints }) => endpoints.isNeverAsked === true);
}

/** The path without its escapes, if all servers read it alike. */
function plainPath(path: string): string | undefined {
  const { text, isDecoded } = decodedPath(path);
  return isDecoded && everyServer.test(text) && !oddSegment.test(text) ? text : undefined;
}

const everyServer = /^\/[\w\-./:~@!$&'()*+,=]*$/;
const oddSegment = /\/(?:\.{0,2})(?=\/)|\/\.{1,2}$/;
