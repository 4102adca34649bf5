/** Client of the admin server: typed responses, and error responses as errors with the server's message. */
import type { AdminError } from "@gatewayproxy/admin-api/error";
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";

/** An error response, or no response; the message is for people. */
export class AdminFailure extends Error {
  /** Whether there was no response at all. */
  readonly isUnreachable: boolean;

  constructor(message: string, isUnreachable: boolean) {
    super(message);
    this.isUnreachable = isUnreachable;
  }
}

/** A parsed response. */
export interface JsonData<Data> {
  readonly data: Data;
  /** The length of its text in characters. */
  readonly length: number;
}

/** Fetches JSON. Rejects with AdminFailure. */
export async function getJson<Data>(path: string, signal: AbortSignal): Promise<JsonData<Data>> {
  const text = await (await ask(path, { signal })).text();
  return { data: JSON.parse(text) as Data, length: text.length }; // the server is built from the same types
}

/** Fetches text. Rejects with AdminFailure. */
export async function getText(path: string, method: "GET" | "POST", signal: AbortSignal): Promise<string> {
  return (await ask(path, { method, signal })).text();
}

/**
 * Traces the next request that matches `expression` (CEL; empty: any) to its end. `onReady` is called when the server
 * is ready to trace. Rejects with AdminFailure; resolves also if `signal` aborts.
 */
export async function followTrace(
  expression: string,
  { onReady, onEvent }: { readonly onReady: () => void; readonly onEvent: (event: TraceEvent) => void },
  signal: AbortSignal,
): Promise<void> {
  const query = expression === "" ? "" : `?expression=${encodeURIComponent(expression)}`;
  try {
    const { body } = await ask(`/debug/trace${query}`, { signal });
    if (body === null) return;
    for await (const line of linesOf(body.pipeThrough(new TextDecoderStream()))) {
      if (line === ": ready") onReady();
      if (line.startsWith("data: ")) onEvent(JSON.parse(line.slice("data: ".length)) as TraceEvent);
    }
  } catch (error) {
    if (!signal.aborted) throw toFailure(error);
  }
}

/** Returns a thrown value as a failure to show. */
export function toFailure(error: unknown): AdminFailure {
  return error instanceof AdminFailure ? error : new AdminFailure(unreachable, true);
}

const unreachable = "The proxy does not respond. It may have stopped, or the port-forward to it has ended.";

async function* linesOf(chunks: ReadableStream<string>): AsyncGenerator<string> {
  const reader = chunks.getReader();
  let rest = "";
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const lines = (rest + read.value).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

async function ask(path: string, options: RequestInit): Promise<Response> {
  const response = await fetch(path, options);
  if (response.ok) return response;
  throw new AdminFailure(await explain(response), false);
}

/** Returns the server's message. Its hint is left out, since it is about parameters of the API. */
async function explain(response: Response): Promise<string> {
  try {
    const { error } = (await response.json()) as AdminError; // every error response of the server has this shape
    return error;
  } catch {
    return `The proxy responded with ${response.status} ${response.statusText}.`;
  }
}
