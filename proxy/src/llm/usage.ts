/**
 * Sums the usage objects of one response in any dialect.
 *
 * OpenAI's chat completions and embeddings use `prompt_tokens`, `completion_tokens`, `total_tokens`. OpenAI's
 * responses API uses `input_tokens`, `output_tokens`, `total_tokens`. Anthropic's messages use `input_tokens`,
 * `output_tokens` and, in addition to the input, `cache_creation_input_tokens` and `cache_read_input_tokens`; a stream
 * has two reports: `message_start` with the input and `message_delta` with the cumulative output. Bedrock uses
 * `inputTokens`, Gemini `promptTokenCount`, its interactions `total_input_tokens`, Ollama `prompt_eval_count`; Cohere
 * nests its figures in `tokens`. No name has two meanings, so the dialect need not be known.
 */
import type { TokenUsage, UsageOutcome } from "../ir/usage.ts";

/** The maximum valid figure: 2³¹ − 1. The largest context of current models is about 2²¹. */
export const maxTokens = 2 ** 31 - 1;

/** The maximum length of a model name, which becomes a label and a log field. */
const maxModelLength = 256;

/** The maximum number of generations of one response that are counted separately. */
const maxParts = 1024;

/** The key for the sum of generations whose id was reused by a later one. No id contains a NUL. */
const closedKey = "\0";

/** The figures of one or more usage objects; undefined if none contains the figure. */
interface Figures {
  readonly input: number | undefined;
  readonly cacheCreation: number | undefined;
  readonly cacheRead: number | undefined;
  readonly output: number | undefined;
  readonly total: number | undefined;
}

/**
 * Combines the usage reports of a response in order. A later report replaces the figures that it contains and keeps
 * the others, since all dialects with several reports report running totals. An invalid report does not affect earlier
 * valid ones. No method throws.
 */
export class UsageTally {
  #figures: Figures | undefined;
  /** The figures of generations that are charged together, by their id. */
  readonly #parts = new Map<string, Figures>();
  #isOpen = false;
  #isMalformed = false;
  #isIncomplete = false;
  #isBackground = false;
  #model: string | undefined;

  /**
   * Adds the parsed value of a `usage` member. `null` and objects without a known figure are ignored.
   *
   * @param opensMessage whether the message begins with this report and its output will follow (`message_start`)
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

  /**
   * Adds the usage of one of several generations in a response. A later report with the same id replaces an earlier
   * one.
   */
  addPart(usage: unknown, part: string): void {
    const figures = readFigures(usage);
    if (figures === "malformed") {
      this.#isMalformed = true;
      this.#isIncomplete = true;
    } else if (figures !== undefined) {
      const key = this.#parts.size < maxParts || this.#parts.has(part) ? part : "";
      const existing = this.#parts.get(key);
      if (existing !== undefined && key === part && isLess(figures, existing)) this.#close(existing);
      const isOther = key !== part && existing !== undefined;
      this.#parts.set(key, isOther ? sumOf(existing, figures) : figures);
    }
  }

  /**
   * Closes a generation. A running total never decreases, so a lower report is of another generation with the same id.
   */
  #close(figures: Figures): void {
    const earlier = this.#parts.get(closedKey);
    this.#parts.set(closedKey, earlier === undefined ? figures : sumOf(earlier, figures));
  }

  /** Whether a message has begun with a report, and its output has not been reported yet. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Marks the response as made in the background: no earlier response has reported its usage. */
  setBackground(): void {
    this.#isBackground = true;
  }

  get isBackground(): boolean {
    return this.#isBackground;
  }

  /** Marks the sum as incomplete: a report could not be read. */
  setIncomplete(): void {
    this.#isIncomplete = true;
  }

  get isIncomplete(): boolean {
    return this.#isIncomplete;
  }

  /** Sets the model of the response. Anything but a text of 1 to 256 characters is ignored. */
  setModel(model: unknown): void {
    if (typeof model === "string" && model !== "" && model.length <= maxModelLength) this.#model = model;
  }

  /** The outcome by the reports of the upstream alone. */
  reported(): UsageOutcome {
    const figures = this.#sum();
    if (figures === undefined) return { kind: "uncounted", reason: this.#isMalformed ? "malformed" : "absent" };
    const total = totalOf(figures);
    if (total > maxTokens) return { kind: "uncounted", reason: "malformed" };
    return this.#counted(figures.output, total, false, inputOf(figures));
  }

  /** Whether the upstream has reported valid figures for the whole response. */
  get isSettled(): boolean {
    const figures = this.#sum();
    if (figures === undefined) return false;
    const hasInput = (figures.total ?? inputOf(figures)) !== undefined;
    return hasInput && !this.#isOpen && totalOf(figures) <= maxTokens;
  }

  /** The outcome for a partly reported response: the reported figures, else the given ones. */
  estimated(inputTokens: number, outputTokens: number): UsageOutcome {
    const figures = this.#sum();
    const reported = figures === undefined ? undefined : inputOf(figures);
    const input = Math.min(maxTokens, reported ?? inputTokens);
    const output = Math.max(figures?.output ?? 0, outputTokens);
    return this.#counted(output, Math.min(maxTokens, input + output), true, input > 0 ? input : undefined);
  }

  /** The larger of the reported and the given figures: for a report that may be incomplete, or not of the upstream. */
  atLeast(inputTokens: number, outputTokens: number): UsageOutcome {
    const figures = this.#sum();
    const input = Math.max(inputTokens, (figures && inputOf(figures)) ?? 0);
    const output = Math.max(outputTokens, figures?.output ?? 0);
    const total = Math.min(maxTokens, input + output);
    const reported = figures === undefined ? -1 : totalOf(figures);
    if (reported < total || reported > maxTokens) return this.#counted(output, total, true, Math.min(maxTokens, input));
    return this.reported();
  }

  /** A report on the whole response takes precedence over reports on its parts. */
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

/** Whether a figure has decreased. */
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
 * Reads one usage object. If it has a total, only that must be valid. Otherwise all its figures must be valid, since
 * the total is their sum.
 *
 * @returns undefined if it contains no figures
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

/** The nested figures of Cohere: of all tokens, else of the billed ones. */
function innerOf(fields: ReadonlyMap<string, unknown>): unknown {
  return fields.get("tokens") ?? fields.get("billed_units");
}

function readTokens(value: unknown): number | "malformed" | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0 || value > maxTokens) return "malformed";
  // Normalizes −0, which is valid JSON and would appear in a log.
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

/** The whole input. Anthropic reports input that is written to or read from the cache separately. */
function inputOf(figures: Figures): number | undefined {
  const { input, cacheCreation, cacheRead } = figures;
  if (input === undefined && cacheCreation === undefined && cacheRead === undefined) return undefined;
  return (input ?? 0) + (cacheCreation ?? 0) + (cacheRead ?? 0);
}

function totalOf(figures: Figures): number {
  return figures.total ?? (inputOf(figures) ?? 0) + (figures.output ?? 0);
}
