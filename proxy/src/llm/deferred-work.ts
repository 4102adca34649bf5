/**
 * Recognizes requests for deferred work: the provider does it later or elsewhere, so the response does not report
 * tokens.
 *
 * The output of such work is read by other requests, by several, or never, so a token limit cannot charge it reliably.
 * The table below is the only list of these endpoints. Paths are interpreted like the most tolerant server does
 * (`provider-path.ts`). In doubt work counts as deferred, so that no request evades a limit.
 */
import { decodedPath, decodedQuery } from "./provider-path.ts";

/** One kind of endpoint. */
export interface DeferringEndpoint {
  /**
   * The form of `pattern`, a regular expression without flags. `segment`: any whole path segment. `last`: the last
   * segment. `method`: the beginning of a custom method after `:`, or of a gRPC method.
   */
  readonly kind: "segment" | "last" | "method";
  readonly pattern: string;
  /** The APIs that document it. */
  readonly source: string;
  /** Documented paths. */
  readonly examples: readonly string[];
  /** APIs that are not of models have such names too. Not used for backends that are not known to be providers. */
  readonly isAmbiguous?: true;
}

/** The endpoints that begin deferred work, by the APIs that document them. */
export const deferringEndpoints: readonly DeferringEndpoint[] = [
  {
    kind: "segment",
    pattern: "batch(?:es)?",
    source: "Batches: OpenAI, Azure, Groq, Together; Anthropic; Mistral; Gemini",
    examples: ["/v1/batches", "/v1/messages/batches", "/v1/batch/jobs"],
  },
  {
    isAmbiguous: true,
    kind: "segment",
    pattern: "[^/\\\\:;]*jobs?",
    source:
      "Jobs. Vertex: batchPredictionJobs, tuningJobs. Fireworks: batchInferenceJobs, supervisedFineTuningJobs. Bedrock: model-invocation-job, model-customization-jobs. Cohere: embed-jobs. Azure: video/generations/jobs",
    examples: [
      "/v1/projects/p/locations/l/batchPredictionJobs",
      "/v1/projects/p/locations/l/tuningJobs",
      "/v1/accounts/a/batchInferenceJobs",
      "/v1/accounts/a/supervisedFineTuningJobs",
      "/model-invocation-job",
      "/model-customization-jobs",
      "/v1/embed-jobs",
      "/openai/v1/video/generations/jobs",
    ],
  },
  {
    kind: "segment",
    pattern: "fine[-_]?tun(?:es?|ing)",
    source: "Fine-tuning. OpenAI: fine_tuning. Cohere: finetuning. Together: fine-tunes",
    examples: ["/v1/fine_tuning/jobs", "/v1/finetuning/finetuned-models", "/v1/fine-tunes"],
  },
  {
    kind: "segment",
    pattern: "bulk[-_]embeddings",
    source: "Jina: bulk-embeddings",
    examples: ["/v1/bulk-embeddings"],
  },
  { kind: "last", pattern: "tunedModels", source: "Fine-tuning: Gemini", examples: ["/v1beta/tunedModels"] },
  {
    isAmbiguous: true,
    kind: "segment",
    pattern: "evals|evaluations?",
    source: "Evaluations. OpenAI: evals. Together: evaluation",
    examples: ["/v1/evals/e/runs", "/v1/evaluation"],
  },
  {
    isAmbiguous: true,
    kind: "segment",
    pattern: "runs",
    source: "Runs of assistants: OpenAI, Azure; LangGraph",
    examples: ["/openai/threads/t/runs?api-version=1", "/v1/threads/runs", "/v1/threads/t/runs/r/submit_tool_outputs"],
  },
  {
    isAmbiguous: true,
    kind: "segment",
    pattern: "(?:[^/\\\\:;]*[-_])?async(?:[-_][^/\\\\:;]*)?",
    source:
      "Asynchronous invocations. Bedrock: async-invoke. SageMaker: async-invocations. Perplexity, Zhipu: async/chat",
    examples: ["/async-invoke", "/endpoints/e/async-invocations", "/async/chat/completions", "/v1/t2a_async_v2"],
  },
  {
    kind: "method",
    pattern: "async|batchGenerate|batchPredict",
    source: "Batches: Gemini's batchGenerateContent and asyncBatchEmbedContent",
    examples: ["/v1beta/models/m:batchGenerateContent", "/v1beta/models/m:asyncBatchEmbedContent"],
  },
  {
    kind: "method",
    pattern: "predictLongRunning|evaluateDataset|submit",
    source:
      "Long-running operations. Gemini, Vertex: predictLongRunning. Vertex: evaluateDataset. Azure: generations:submit",
    examples: [
      "/v1beta/models/veo:predictLongRunning",
      "/v1/projects/p/locations/l:evaluateDataset",
      "/openai/images/generations:submit",
    ],
  },
  {
    isAmbiguous: true,
    kind: "segment",
    pattern: "videos?|video_generation",
    source: "Videos. OpenAI, xAI: videos. Azure: video/generations. MiniMax: video_generation",
    examples: ["/v1/videos", "/v1/videos/v/remix", "/v1/video_generation"],
  },
  {
    isAmbiguous: true,
    kind: "last",
    pattern: "predictions|tasks|executions|run(?:sync)?",
    source:
      "Replicate: predictions. Volcengine: contents/generations/tasks. Bedrock's flows: executions. RunPod: run, and runsync, which returns a job after some time. Fireworks: workflows/run",
    examples: [
      "/v1/models/o/m/predictions",
      "/api/v3/contents/generations/tasks",
      "/flows/f/aliases/a/executions",
      "/v2/ENDPOINT/run",
      "/v2/ENDPOINT/runsync",
      "/v1/workflows/run",
    ],
  },
  {
    isAmbiguous: true,
    kind: "segment",
    pattern: "sessions",
    source: "Sessions of agents: Anthropic, OpenAI",
    examples: ["/v1/sessions", "/v1/sessions/s/events"],
  },
  {
    kind: "segment",
    pattern: "realtime|chatkit|auth_tokens",
    source: "Sessions of clients with the provider. OpenAI: realtime, chatkit. Gemini: auth_tokens",
    examples: ["/v1/realtime/client_secrets", "/v1/chatkit/sessions", "/v1alpha/auth_tokens"],
  },
];

/** The patterns that recognize the paths of some endpoints. */
interface PathPatterns {
  readonly path: RegExp;
  /** For paths with `..`, in which any segment may become the last one. */
  readonly upwardPath: RegExp;
}

/** The text that may follow the last segment: parameters, slashes, `/.`. */
const tail = String.raw`[^/\\]*(?:[/\\](?:[.;][^/\\]*)?)*$`;

/** @param methodStart the character class of the character before a method. */
function pathPatterns(endpoints: readonly DeferringEndpoint[], methodStart: string): PathPatterns {
  const patternsOf = (kind: DeferringEndpoint["kind"]): string =>
    endpoints
      .filter((endpoint) => endpoint.kind === kind)
      .map(({ pattern }) => pattern)
      .join("|");
  const ofSegment = String.raw`[/\\](?:${patternsOf("segment")})(?![\w-])`;
  const ofMethod = `${methodStart}(?:${patternsOf("method")})`;
  const ofLast = String.raw`[/\\](?:${patternsOf("last")})(?![\w-])`;
  return { path: new RegExp(`${ofSegment}|${ofMethod}|${ofLast}${tail}`, "i"), upwardPath: new RegExp(ofLast, "i") };
}

const ofProviders = pathPatterns(deferringEndpoints, String.raw`[:/\\]`);
const ofAnyServer = pathPatterns(
  deferringEndpoints.filter(({ isAmbiguous }) => isAmbiguous !== true),
  ":",
);
const upward = /[/\\]\.\./;

/** Cloudflare's `?queueRequest=true`. */
const deferringQuery = /(?:^|[&;?])\s*queueRequest/i;

/**
 * Whether some server could route `path` to deferred work.
 *
 * @param path the path that the provider receives, with the query.
 * @param isProvider whether the backend is known to be a provider: then ambiguous endpoints count too.
 */
export function mayDeferWork(path: string, isProvider = true): boolean {
  const { text, isDecoded } = decodedPath(path);
  const { path: ofPath, upwardPath } = isProvider ? ofProviders : ofAnyServer;
  if (!isDecoded || ofPath.test(text) || (upward.test(text) && upwardPath.test(text))) return true;
  const query = decodedQuery(path);
  return !query.isDecoded || deferringQuery.test(query.text);
}

/**
 * Members of a JSON body that request deferred work, in lower case: `background` (OpenAI's responses, Gemini's
 * interactions), `deferred` (xAI's chat completions). The values `false` and `null` request none.
 */
export const deferringMembers = ["background", "deferred"] as const;

/**
 * Whether a member of the body can defer the work at `path`, so that the body must be read. The names have other
 * meanings elsewhere: `background` is the colour of an image at `/v1/images/generations`.
 *
 * @param path the path that the provider receives; the query is ignored.
 */
export function takesDeferringMembers(path: string): boolean {
  const { text, isDecoded } = decodedPath(path);
  return !isDecoded || /response|completion|interaction/i.test(text);
}

/** Whether a header field requests deferred work: `Prefer: respond-async` (RFC 7240 §4.1), Alibaba's DashScope. */
export function isDeferringField(name: string, value: string): boolean {
  switch (name.toLowerCase()) {
    case "prefer":
      return /respond-async/i.test(value);
    case "x-dashscope-async":
      return !/^(?:disable|false)?$/i.test(value.trim());
    default:
      return false;
  }
}
