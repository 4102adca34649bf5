/**
 * What the usage objects of one response come to, whatever dialect they are in.
 *
 * OpenAI chat completions and embeddings say `prompt_tokens`, `completion_tokens`, `total_tokens`; the OpenAI
 * responses API says `input_tokens`, `output_tokens`, `total_tokens`; Anthropic messages say `input_tokens`,
 * `output_tokens` and, beside the input, `cache_creation_input_tokens` and `cache_read_input_tokens`, in two parts when
 * streamed: `message_start` opens with the input, `message_delta` ends with the cumulative output. Bedrock writes
 * `inputTokens`, Gemini `promptTokenCount`, its interactions `total_input_tokens`, Ollama `prompt_eval_count`; Cohere has its figures in `tokens`. No name means
 * two things, so the dialect need not be known.
 */
import type { TokenUsage, UsageOutcome } from "../ir/usage.ts";

/** The largest figure that is believed: 2³¹ − 1. The largest context of today's models is about 2²¹. */
export const maxTokens = 2 ** 31 - 1;

/** The longest model name that is kept; it becomes a label and a log field. */
const maxModelLength = 256;

/** How many generations of one response are counted separately. */
const maxParts = 1024;

/** The name of the sum of answers that others of the same name have followed; no other name has a NUL. */
const closedParts = "\0";

/** The figures of one or more usage objects; undefined where none gave it. */
interface Figures {
  readonly input: number | undefined;
  readonly cacheCreation: number | undefined;
  readonly cacheRead: number | undefined;
  readonly output: number | undefined;
  readonly total: number | undefined;
}

/**
 * Adds up what a response reports of its usage, in the order in which it does. A later report replaces the figures that
 * it gives and leaves the others, since every dialect that reports more than once reports running totals. A bad report
 * leaves earlier good ones standing. Nothing here throws.
 */
export class UsageTally {
  #figures: Figures | undefined;
  /** Of generations that are charged together, by their id. */
  readonly #parts = new Map<string, Figures>();
  #isOpen = false;
  #isMalformed = false;
  #isIncomplete = false;
  #isBackground = false;
  #model: string | undefined;

  /**
   * Takes the parsed value of a `usage` member; `null` and objects without a known figure say nothing.
   *
   * @param opensMessage the message begins with this report and its output is still to come (`message_start`)
   */
  add(usage: unknown, opensMessage = false): void {
    const figures = readFigures(usage);
    if (figures === "malformed") {
      this.#isMalformed = true;
    } else if (figures !== undefined) {
      this.#figures = this.#figures === undefined ? figures : overlay(this.#figures, figures);
      this.#isOpen = opensMessage;
    }
  }

  /** Takes the usage of one of several answers in a response. A later report of the same one replaces an earlier one. */
  addPart(usage: unknown, part: string): void {
    const figures = readFigures(usage);
    if (figures === "malformed") {
      this.#isMalformed = true;
      this.#isIncomplete = true;
    } else if (figures !== undefined) {
      const key = this.#parts.size < maxParts || this.#parts.has(part) ? part : "";
      const known = this.#parts.get(key);
      if (known !== undefined && key === part && isLess(figures, known)) this.#close(known);
      const isOther = key !== part && known !== undefined;
      this.#parts.set(key, isOther ? sumOf(known, figures) : figures);
    }
  }

  /** A running total never falls: what follows is another answer under the same name. */
  #close(figures: Figures): void {
    const earlier = this.#parts.get(closedParts);
    this.#parts.set(closedParts, earlier === undefined ? figures : sumOf(earlier, figures));
  }

  /** Whether a message has begun with a report, and its output has not been reported. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** The response was made in the background: no earlier one has told its usage. */
  setBackground(): void {
    this.#isBackground = true;
  }

  get isBackground(): boolean {
    return this.#isBackground;
  }

  /** A report could not be read: the figures of the others are not those of the whole answer. */
  setIncomplete(): void {
    this.#isIncomplete = true;
  }

  get isIncomplete(): boolean {
    return this.#isIncomplete;
  }

  /** Takes the name of the model that answered; anything but a text of 1..256 characters is ignored. */
  setModel(model: unknown): void {
    if (typeof model === "string" && model !== "" && model.length <= maxModelLength) this.#model = model;
  }

  /** The outcome by the upstream's own words alone. */
  reported(): UsageOutcome {
    const figures = this.#sum();
    if (figures === undefined) return { kind: "uncounted", reason: this.#isMalformed ? "malformed" : "absent" };
    const total = totalOf(figures);
    if (total > maxTokens) return { kind: "uncounted", reason: "malformed" };
    return this.#counted(figures.output, total, false, inputOf(figures));
  }

  /** Whether the upstream has said, in good figures, what the whole answer cost. */
  get isSettled(): boolean {
    const figures = this.#sum();
    if (figures === undefined) return false;
    const hasInput = (figures.total ?? inputOf(figures)) !== undefined;
    return hasInput && !this.#isOpen && totalOf(figures) <= maxTokens;
  }

  /** The outcome for an answer of which the upstream did not report everything: what it reported, else these figures. */
  estimated(inputTokens: number, outputTokens: number): UsageOutcome {
    const figures = this.#sum();
    const reported = figures === undefined ? undefined : inputOf(figures);
    const input = Math.min(maxTokens, reported ?? inputTokens);
    const output = Math.max(figures?.output ?? 0, outputTokens);
    return this.#counted(output, Math.min(maxTokens, input + output), true, input > 0 ? input : undefined);
  }

  /** What was reported, or these figures if they come to more: for a report that may not be the upstream's, or not whole. */
  atLeast(inputTokens: number, outputTokens: number): UsageOutcome {
    const figures = this.#sum();
    const input = Math.max(inputTokens, (figures && inputOf(figures)) ?? 0);
    const output = Math.max(outputTokens, figures?.output ?? 0);
    const total = Math.min(maxTokens, input + output);
    const reported = figures === undefined ? -1 : totalOf(figures);
    if (reported < total || reported > maxTokens) return this.#counted(output, total, true, Math.min(maxTokens, input));
    return this.reported();
  }

  /** A report on the whole response outweighs those on its parts. */
  #sum(): Figures | undefined {
    if (this.#figures !== undefined) return this.#figures;
    let sum: Figures | undefined;
    for (const part of this.#parts.values()) sum = sum === undefined ? part : sumOf(sum, part);
    return sum;
  }

  #counted(output: number | undefined, total: number, estimated: boolean, input: number | undefined): UsageOutcome {
    const usage: TokenUsage = {
      ...(input !== undefined && { input }),
      ...(output !== undefined && { output }),
      total,
      ...(this.#model !== undefined && { model: this.#model }),
      estimated,
    };
    return { kind: "counted", usage };
  }
}

/** Whether a figure is less than it was. */
function isLess(now: Figures, before: Figures): boolean {
  return (now.output ?? 0) < (before.output ?? 0) || totalOf(now) < totalOf(before);
}

function sumOf(one: Figures, other: Figures): Figures {
  const add = (a: number | undefined, b: number | undefined) =>
    a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0);
  return {
    input: add(inputOf(one), inputOf(other)),
    cacheCreation: undefined,
    cacheRead: undefined,
    output: add(one.output, other.output),
    total: totalOf(one) + totalOf(other),
  };
}

/**
 * Reads one usage object. Its total, where it has one, decides alone; else every figure that it gives must be good, as
 * the total is their sum.
 *
 * @returns undefined when it says nothing
 */
function readFigures(usage: unknown, isInner = false): Figures | "malformed" | undefined {
  if (usage === null) return undefined;
  if (typeof usage !== "object" || Array.isArray(usage)) return "malformed";
  const fields = new Map<string, unknown>(Object.entries(usage));
  const read = (...names: readonly string[]) => readTokens(fields.get(names.find((name) => fields.has(name)) ?? ""));
  const parts = [
    read(...inputNames),
    read("cache_creation_input_tokens", "cacheWriteInputTokens"),
    read("cache_read_input_tokens", "cacheReadInputTokens"),
    read(...outputNames),
  ];
  const total = read("total_tokens", "totalTokens", "totalTokenCount");
  if (total === "malformed") return "malformed";
  if (total === undefined) {
    if (parts.includes("malformed")) return "malformed";
    if (parts.every((part) => part === undefined)) {
      const inner = isInner ? undefined : innerOf(fields);
      return typeof inner === "object" ? readFigures(inner, true) : undefined;
    }
  }
  const [input, cacheCreation, cacheRead, output] = parts.map((part) => (part === "malformed" ? undefined : part));
  return { input, cacheCreation, cacheRead, output, total };
}

const inputNames = [
  "prompt_tokens",
  "input_tokens",
  "inputTokens",
  "promptTokenCount",
  "prompt_eval_count",
  "total_input_tokens",
];
const outputNames = [
  "completion_tokens",
  "output_tokens",
  "outputTokens",
  "candidatesTokenCount",
  "eval_count",
  "total_output_tokens",
];

/** Cohere's figures: of all tokens, else of those that are billed. */
function innerOf(fields: ReadonlyMap<string, unknown>): unknown {
  return fields.get("tokens") ?? fields.get("billed_units");
}

function readTokens(value: unknown): number | "malformed" | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0 || value > maxTokens) return "malformed";
  // JSON can write −0, which would show as such in a log.
  return value === 0 ? 0 : value;
}

function overlay(earlier: Figures, later: Figures): Figures {
  return {
    input: later.input ?? earlier.input,
    cacheCreation: later.cacheCreation ?? earlier.cacheCreation,
    cacheRead: later.cacheRead ?? earlier.cacheRead,
    output: later.output ?? earlier.output,
    total: later.total ?? earlier.total,
  };
}

/** Anthropic counts what it wrote to and read from its cache apart from the input; it is input all the same. */
function inputOf(figures: Figures): number | undefined {
  const { input, cacheCreation, cacheRead } = figures;
  if (input === undefined && cacheCreation === undefined && cacheRead === undefined) return undefined;
  return (input ?? 0) + (cacheCreation ?? 0) + (cacheRead ?? 0);
}

function totalOf(figures: Figures): number {
  return figures.total ?? (inputOf(figures) ?? 0) + (figures.output ?? 0);
}
