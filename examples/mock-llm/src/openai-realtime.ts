/** OpenAI's realtime API over WebSocket, `GET /v1/realtime?model=NAME`, with text only. */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { conversationOf } from "./conversation.ts";
import { complete, type Completion } from "./dialect.ts";
import { asObject, type JsonObject } from "./json.ts";
import { defaultDelayMs, type TypedData } from "./reply.ts";
import { readReplyOptions, type ReplyOptions } from "./reply-options.ts";
import { usageMember } from "./usage.ts";
import { acceptWebSocket, type ServerSocket } from "./web-socket.ts";

/** Serves one session. The headers of its request set the usage and the failures of all its responses. */
export function serveRealtime(request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const model = new URL(request.url ?? "/", "http://mock").searchParams.get("model") ?? "mock-1";
  const session = new Session(readReplyOptions(request.headers), model);
  session.begin(acceptWebSocket(request, socket, head, (message) => session.receive(message)));
}

class Session {
  readonly #options: ReplyOptions;
  readonly #model: string;
  #client: ServerSocket | undefined;
  readonly #items: JsonObject[] = [];
  #sent = 0;
  #responses = 0;
  /** The response in progress. */
  #turn: Promise<void> = Promise.resolve();

  constructor(options: ReplyOptions, model: string) {
    this.#options = options;
    this.#model = model;
  }

  begin(client: ServerSocket): void {
    this.#client = client;
    this.#send({ type: "session.created", session: { object: "realtime.session", model: this.#model } });
  }

  receive(message: string): void {
    const event = parsed(message);
    const item = asObject(event["item"]);
    if (event["type"] === "conversation.item.create") {
      this.#items.push(item);
      this.#send({ type: "conversation.item.added", item });
    } else if (event["type"] === "response.create") {
      this.#turn = this.#turn.then(() => this.#respond());
    }
  }

  async #respond(): Promise<void> {
    const id = `resp_mock_${++this.#responses}`;
    const completion = complete(
      { model: this.#model },
      conversationOf(this.#items),
      "max_output_tokens",
      this.#options,
    );
    const response = { id, object: "realtime.response", status: "in_progress", output: [] };
    this.#send({ type: "response.created", response: { ...response, usage: null } });
    const part = { response_id: id, item_id: `item_mock_${this.#responses}`, output_index: 0, content_index: 0 };
    for (const piece of completion.pieces) {
      await delay(this.#options.delayMs ?? defaultDelayMs);
      if (this.#client?.isOpen !== true) return;
      this.#send({ type: "response.output_text.delta", ...part, delta: piece });
    }
    const output = [{ type: "message", role: "assistant", content: [{ type: "output_text", text: completion.text }] }];
    const usage = usageMember(figuresOf(completion), this.#options.usageFault);
    this.#send({ type: "response.done", response: { ...response, status: "completed", output, ...usage } });
  }

  #send(event: TypedData): void {
    if (this.#options.abortAfter === this.#sent) this.#client?.abort();
    this.#client?.send(JSON.stringify({ event_id: `event_mock_${++this.#sent}`, ...event }));
  }
}

/** Anything but an object is an event without a type. */
function parsed(message: string): JsonObject {
  try {
    return asObject(JSON.parse(message));
  } catch {
    return {};
  }
}

function figuresOf({ usage }: Completion): object {
  return {
    total_tokens: usage.total,
    input_tokens: usage.prompt,
    output_tokens: usage.completion,
    input_token_details: { cached_tokens: 0, text_tokens: usage.prompt, audio_tokens: 0 },
    output_token_details: { text_tokens: usage.completion, audio_tokens: 0 },
  };
}
