/** Reads the usage from one JSON text: a whole body, or the data of one event of a stream. */
import { repeatsText, textMembers } from "./estimate.ts";
import { JsonMembers, type Member, memberPaths } from "./json-members.ts";
import type { UsageTally } from "./usage.ts";

/**
 * The paths of usage members: `usage` at the top level in bodies and in most events; in `response` in events of
 * OpenAI's responses API; in `message` in Anthropic's `message_start`; in `delta` in Cohere's `message-end`; in
 * `interaction` in the last event of Gemini's interactions. Other names: `usageMetadata` (Gemini),
 * `amazon-bedrock-invocationMetrics` in the last event of a stream of Bedrock, `meta_info` (SGLang), `meta` (Cohere's
 * first API, in `response` in the last event of a stream), and Ollama's figures at the top level. Deeper members are
 * not a report of the upstream: the responses API echoes the client's tools, whose parameters may be called `usage`
 * too.
 */
const paths = {
  ...memberPaths(
    ...["usage", "model", "background"].flatMap((name) => [name, `response.${name}`]),
    ...["message.usage", "message.model", "delta.usage", "response.meta"],
    ...["interaction.usage", "interaction.model"],
    ...[
      "amazon-bedrock-invocationMetrics",
      "usageMetadata",
      "modelVersion",
      "meta_info",
      "index",
      "type",
      "meta",
      "prompt_eval_count",
      "eval_count",
    ],
  ),
  tracked: textMembers,
};

/** Scans one JSON text and adds its reports to a tally. */
export class UsageScan {
  readonly #tally: UsageTally;
  readonly #members: JsonMembers;
  /** SGLang's report on one generation. Kept until the end, since its `index` may follow. */
  #generation: object | undefined;
  #index: unknown;
  #repeatsText = false;

  constructor(tally: UsageTally) {
    this.#tally = tally;
    this.#members = new JsonMembers(paths, (member) => this.#report(member));
  }

  /** Reads the next bytes. Keeps no reference to `chunk`. */
  push(chunk: Buffer): void {
    this.#members.push(chunk);
  }

  /** Ends the text. `push` must not be called afterwards. */
  end(): void {
    if (this.#generation !== undefined) addStreamedGeneration(this.#tally, this.#generation, this.#index);
    this.#generation = undefined;
  }

  /** The offset of the bracket that ends the object or array; undefined until it has been read. */
  get endOffset(): number | undefined {
    return this.#members.endOfObjectOrArray;
  }

  /** Whether an object or an array has begun and not ended. */
  get isOpen(): boolean {
    return this.#members.isOpen;
  }

  /** Whether an object or an array has ended. */
  get isComplete(): boolean {
    return this.#members.isComplete;
  }

  /** Whether the text is neither an object nor an array. */
  get isOther(): boolean {
    return this.#members.isOther;
  }

  /** The approximate length of the text in the JSON. */
  get textBytes(): number {
    return this.#members.textBytes;
  }

  /** The number of brackets, braces, commas, colons and quotes. */
  get markBytes(): number {
    return this.#members.markBytes;
  }

  /** Whether this is an event of OpenAI's responses API that repeats the text of earlier events. */
  get repeatsText(): boolean {
    return this.#repeatsText;
  }

  /** Whether there is a member for the text of a model. */
  get hasModelText(): boolean {
    return this.#members.hasTracked;
  }

  #report({ path, value: json, element }: Member): void {
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
        else this.#generation = value;
        break;
      case "meta":
      case "response.meta":
        // The name is not specific to usage: a value without figures is something else.
        if (typeof value === "object") tally.add(value);
        break;
      default:
        if (value === undefined) tally.setIncomplete();
        // In a streamed array of Gemini, each object repeats the total so far. Other arrays contain several
        // generations.
        if (element > 0 && path !== "usageMetadata") tally.addPart(value, String(element));
        else tally.add(value, path === "message.usage");
    }
  }
}

/**
 * Adds the usage of one of several generations in a stream of SGLang, for several prompts or several results per
 * prompt. Each has an `index`, and an `id` that begins with the client's `rid`. The client can give the same long
 * `rid` to several prompts, so index and id together identify a generation. If an id exceeds `maxIdLength`, the sum is
 * incomplete.
 */
function addStreamedGeneration(tally: UsageTally, info: object, index: unknown): void {
  const id = "id" in info && typeof info.id === "string" ? info.id : "";
  if (id.length > maxIdLength) tally.setIncomplete();
  tally.addPart(info, `id ${typeof index === "number" ? index : ""} ${id.slice(0, maxIdLength)}`);
}

/** The maximum length of an id that is kept. 1,024 parts of this length are 1 MiB. */
const maxIdLength = 1024;

/** Parses a value; undefined if it is not JSON, or was too long to keep. */
function parseValue(json: Buffer | undefined): unknown {
  if (json === undefined) return undefined;
  try {
    return JSON.parse(json.toString());
  } catch {
    return undefined;
  }
}
