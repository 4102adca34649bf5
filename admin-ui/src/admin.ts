/** The admin server as the page sees it: answers typed, refusals as errors that say what the server said. */
import type { AdminError } from "@gatewayproxy/admin-api/error";
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";

/** What the server refused, or did not answer; the message is for people. */
export class AdminFailure extends Error {
  /** Whether no answer came at all. */
  readonly isUnreachable: boolean;

  constructor(message: string, isUnreachable: boolean) {
    super(message);
    this.isUnreachable = isUnreachable;
  }
}

export interface JsonAnswer<Answer> {
  readonly answer: Answer;
  /** Characters of its text. */
  readonly length: number;
}

/** Asks for an answer in JSON. Rejects with AdminFailure. */
export async function getJson<Answer>(path: string, signal: AbortSignal): Promise<JsonAnswer<Answer>> {
  const text = await (await ask(path, { signal })).text();
  return { answer: JSON.parse(text) as Answer, length: text.length }; // the server and this page are built from the same types
}

/** Asks for an answer in text. Rejects with AdminFailure. */
export async function getText(path: string, method: "GET" | "POST", signal: AbortSignal): Promise<string> {
  return (await ask(path, { method, signal })).text();
}

/**
 * Follows the next request that matches `expression` (CEL; empty: any) to its end. `onReady` is called when the server
 * watches. Rejects with AdminFailure; resolves also when `signal` aborts.
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

/** Whatever was thrown, as a failure to show. */
export function toFailure(error: unknown): AdminFailure {
  return error instanceof AdminFailure ? error : new AdminFailure(unreachable, true);
}

const unreachable = "The proxy does not answer. It may have stopped, or the port-forward to it has ended.";

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

/** The server's own words. Its hint is left out: it speaks of parameters of the API. */
async function explain(response: Response): Promise<string> {
  try {
    const { error } = (await response.json()) as AdminError; // every refusal of the server has this shape
    return error;
  } catch {
    return `The proxy answered ${response.status} ${response.statusText}.`;
  }
}
