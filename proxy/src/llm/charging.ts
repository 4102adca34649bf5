/**
 * What a request to an LLM backend is charged for, where its answer leaves that open.
 *
 * Rule: every successful answer to a request with a body is the work of a model, and costs an estimate where it does not
 * tell its usage. The exceptions are named here, by the documentation of the APIs. They are compared with the path as it
 * is, without escapes, parameters or anything else that servers read differently, so that no spelling of another endpoint
 * passes for one of them.
 */

/** What the provider is asked. */
export interface AskedOf {
  readonly method: string;
  /** As the provider gets it. */
  readonly path: string;
}

const plainPath = /^[\w\-./:~]+$/;

/** In front of an endpoint that generates nothing: some servers route all that begins like one that does to it. */
const generates = /complet|generat|\/(?:chat|messages|responses|invoke|embed)/i;

/** Endpoints that take a body and generate nothing. */
const freeEndpoint = new RegExp(
  [
    // Token counting: Anthropic, OpenAI, Gemini and Vertex, Bedrock.
    "/messages/count_tokens",
    "/responses/input_tokens",
    ":countTokens",
    "/count-tokens",
    // vLLM, SGLang, TGI, llama.cpp, Cohere.
    "/(?:de|chat_)?tokenize",
    // OpenAI, Anthropic, Mistral: what is uploaded is charged where it is used.
    "/files",
    "/uploads(?:/[\\w-]+/(?:parts|complete|cancel))?",
    // OpenAI: free of charge.
    "/moderations",
    // OpenAI: ends what was charged when it was made.
    "/(?:responses|batches|jobs|runs)/[\\w-]+/cancel",
    // Gemini, Vertex, Fireworks.
    "/(?:batches|\\w*Jobs)/[\\w-]+:cancel",
  ]
    .map((endpoint) => `${endpoint}$`)
    .join("|"),
);

/** OpenAI's copies of answers, which tell the usage of when they were made. */
const storedAnswer = /\/(?:responses|chat\/completions)\/[\w-]+$/;

/** Whether the endpoint generates nothing, whatever it is sent. */
export function generatesNothing(path: string): boolean {
  return frontOfFree(path) !== undefined;
}

/** What stands in front of an endpoint that generates nothing; undefined where the path is of no such endpoint. */
export function frontOfFree(path: string): string | undefined {
  const plain = plainPathOf(path);
  const endpoint = plain === undefined ? null : freeEndpoint.exec(plain);
  const front = endpoint?.input.slice(0, endpoint.index);
  return front === undefined || generates.test(front) ? undefined : front;
}

/** Whether the answer is the copy of an earlier one. @param requestBytes of the request's body. */
export function readsStored({ method, path }: AskedOf, requestBytes: number): boolean {
  if (requestBytes > 0 || (method !== "GET" && method !== "HEAD")) return false;
  const plain = plainPathOf(path);
  return plain !== undefined && storedAnswer.test(plain);
}

function plainPathOf(path: string): string | undefined {
  const query = path.indexOf("?");
  const pathname = query === -1 ? path : path.slice(0, query);
  return plainPath.test(pathname) ? pathname : undefined;
}
