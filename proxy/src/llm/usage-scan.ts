/** The members of one JSON text that tell its usage: a whole body, or the data of one event of a stream. */
import { repeatsText, textMembers } from "./estimate.ts";
import { JsonMembers, type Member, memberPaths } from "./json-members.ts";
import type { UsageTally } from "./usage.ts";

/**
 * `usage` at the top in bodies and in most events; in `response` in the events of OpenAI's responses API; in `message` in
 * Anthropic's `message_start`; in `delta` in Cohere's `message-end`; in `interaction` in the last event of Gemini's interactions.
 * Gemini says `usageMetadata` elsewhere, SGLang `meta_info`, Cohere's first API `meta` (in the last event of a stream in
 * `response`), and Ollama has its figures at the top. Deeper ones are not the upstream's report: the
 * responses API echoes the client's tools, whose parameters may be called `usage` too.
 */
const paths = {
  ...memberPaths(
    ...["usage", "model", "background"].flatMap((name) => [name, `response.${name}`]),
    ...["message.usage", "message.model", "delta.usage", "response.meta"],
    ...["interaction.usage", "interaction.model"],
    ...["usageMetadata", "modelVersion", "meta_info", "index", "type", "meta", "prompt_eval_count", "eval_count"],
  ),
  noted: textMembers,
};

/** The reading of one JSON text; what it reports goes to a tally. */
export class UsageScan {
  readonly #tally: UsageTally;
  readonly #members: JsonMembers;
  /** SGLang's report on one answer; the `index` of the answer may stand behind it. */
  #answer: object | undefined;
  #index: unknown;
  #repeatsText = false;

  constructor(tally: UsageTally) {
    this.#tally = tally;
    this.#members = new JsonMembers(paths, (member) => this.#tell(member));
  }

  /** Reads on. Keeps no reference to `chunk`. */
  push(chunk: Buffer): void {
    this.#members.push(chunk);
  }

  /** Nothing may be pushed afterwards. */
  end(): void {
    if (this.#answer !== undefined) addStreamedAnswer(this.#tally, this.#answer, this.#index);
    this.#answer = undefined;
  }

  /** The offset of the bracket that ends the object or the array, once it has been read. */
  get endOffset(): number | undefined {
    return this.#members.endOfAny;
  }

  /** Whether an object or an array has begun and not ended. */
  get isOpen(): boolean {
    return this.#members.isOpen;
  }

  /** Whether an object or an array has ended. */
  get isOver(): boolean {
    return this.#members.isOver;
  }

  /** Whether the text is neither an object nor an array. */
  get isOther(): boolean {
    return this.#members.isOther;
  }

  /** About as much text as the JSON carries. */
  get textBytes(): number {
    return this.#members.textBytes;
  }

  /** Bytes of brackets, braces, commas, colons and quotes. */
  get markBytes(): number {
    return this.#members.markBytes;
  }

  /** Whether it is an event of OpenAI's responses that repeats what others have brought. */
  get repeatsText(): boolean {
    return this.#repeatsText;
  }

  /** Whether there is a member in which a model writes. */
  get hasModelText(): boolean {
    return this.#members.hasNoted;
  }

  #tell({ path, value: json, element }: Member): void {
    const tally = this.#tally;
    const value = parseValue(json);
    switch (path) {
      case "model":
      case "response.model":
      case "message.model":
      case "interaction.model":
      case "modelVersion":
        tally.setModel(value);
        break;
      case "background":
      case "response.background":
        if (value === true) tally.setBackground();
        break;
      case "prompt_eval_count":
      case "eval_count":
        tally.add({ [path]: value });
        break;
      case "type":
        this.#repeatsText = typeof value === "string" && repeatsText(value);
        break;
      case "index":
        this.#index = value;
        break;
      case "meta_info":
        if (value === undefined) tally.setIncomplete();
        else if (typeof value !== "object" || value === null) break;
        else if (element > 0) tally.addPart(value, String(element));
        else this.#answer = value;
        break;
      case "meta":
      case "response.meta":
        // No name of a usage alone: what has no figures is something else.
        if (typeof value === "object") tally.add(value);
        break;
      default:
        if (value === undefined) tally.setIncomplete();
        // Of an array that is streamed, each object repeats the total so far (Gemini); other arrays are of several answers.
        if (element > 0 && path !== "usageMetadata") tally.addPart(value, String(element));
        else tally.add(value, path === "message.usage");
    }
  }
}

/**
 * SGLang answers several prompts, or a prompt several times, in one stream. Each answer has an `id`, which begins with the
 * client's `rid`, and an `index`. The client can give one `rid` to several prompts, and a long one; so the two together tell
 * the answers apart, and with an id that is longer than what is kept the sum is not complete.
 */
function addStreamedAnswer(tally: UsageTally, info: object, index: unknown): void {
  const id = "id" in info && typeof info.id === "string" ? info.id : "";
  if (id.length > maxIdLength) tally.setIncomplete();
  tally.addPart(info, `id ${typeof index === "number" ? index : ""} ${id.slice(0, maxIdLength)}`);
}

/** 1,024 parts of this length are 1 MiB. */
const maxIdLength = 1024;

/** Undefined where the value is not JSON, or too long to be kept. */
function parseValue(json: Buffer | undefined): unknown {
  if (json === undefined) return undefined;
  try {
    return JSON.parse(json.toString());
  } catch {
    return undefined;
  }
}
