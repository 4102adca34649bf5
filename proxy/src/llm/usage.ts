/**
 * Sums the usage objects of one response in any dialect.
 *
 * OpenAI's chat completions and embeddings use `prompt_tokens`, `completion_tokens`, `total_tokens`. OpenAI's
 * responses API uses `input_tokens`, `output_tokens`, `total_tokens`. Anthropic's messages use `input_tokens`,
 * `output_tokens` and, in addition to the input, `cache_creation_input_tokens` and `cache_read_input_tokens`; a stream
 * has two reports: `message_start` with the input and `message_delta` with the cumulative output. Bedrock uses
 * `inputTokens`, and `inputTokenCount` in the metrics of an invocation; Gemini `promptTokenCount`, its interactions
 * `total_input_tokens`, Ollama `prompt_eval_count`; Cohere nests its figures in `tokens`. No name has two meanings, so
 * the dialect need not be known.
 *
 * Some figures are part of another one, such as OpenAI's `reasoning_tokens` of its `completion_tokens`. Others are
 * added to it, such as Gemini's `thoughtsTokenCount` to its `candidatesTokenCount`. `TokenUsage` has one meaning for
 * all: input and output are whole, and the other figures are parts of them.
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

/** The names of each figure in all dialects, by what the figure means. */
const figureNames = {
  input: [
    ...["prompt_tokens", "input_tokens", "inputTokens", "inputTokenCount", "promptTokenCount", "prompt_eval_count"],
    "total_input_tokens",
  ],
  /** In addition to `input`. Gemini: results of tools that were given to the model. */
  toolInput: ["toolUsePromptTokenCount"],
  /** In addition to `input`. Anthropic, Bedrock: input that was written to a cache. */
  cacheCreation: ["cache_creation_input_tokens", "cacheWriteInputTokens", "cacheWriteInputTokenCount"],
  /** In addition to `input`. Anthropic, Bedrock: input that was read from a cache. */
  cacheRead: ["cache_read_input_tokens", "cacheReadInputTokens", "cacheReadInputTokenCount"],
  output: [
    ...["completion_tokens", "output_tokens", "outputTokens", "outputTokenCount", "candidatesTokenCount", "eval_count"],
    "total_output_tokens",
  ],
  /** In addition to `output`. Gemini: the reasoning. */
  thoughts: ["thoughtsTokenCount"],
  total: ["total_tokens", "totalTokens", "totalTokenCount"],
} as const;

/** The names of figures that are part of the input or the output. */
const partNames = {
  /** Gemini, its interactions, DeepSeek, Moonshot. */
  cachedInput: ["cachedContentTokenCount", "total_cached_tokens", "prompt_cache_hit_tokens", "cached_tokens"],
  createdInput: ["cache_write_tokens"],
  reasoning: ["reasoning_tokens"],
} as const;

/**
 * The members with the parts of OpenAI's figures: of chat completions, of the responses API, and of realtime sessions.
 */
const detailNames = [
  "prompt_tokens_details",
  "input_tokens_details",
  "completion_tokens_details",
  "output_tokens_details",
  "input_token_details",
  "output_token_details",
] as const;

/** The figures of one or more usage objects; undefined if none contains the figure. */
type Figures = Readonly<Record<keyof typeof figureNames | keyof typeof partNames, number | undefined>>;

const noFigures: Figures = {
  ...{ input: undefined, toolInput: undefined, cacheCreation: undefined, cacheRead: undefined, output: undefined },
  ...{ thoughts: undefined, total: undefined, cachedInput: undefined, createdInput: undefined, reasoning: undefined },
};

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
    return this.#counted(figures, { input: inputOf(figures), output: outputOf(figures), total, estimated: false });
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
    const output = Math.max((figures && outputOf(figures)) ?? 0, outputTokens);
    const total = Math.min(maxTokens, input + output);
    return this.#counted(figures, { input: input > 0 ? input : undefined, output, total, estimated: true });
  }

  /** The larger of the reported and the given figures: for a report that may be incomplete, or not of the upstream. */
  atLeast(inputTokens: number, outputTokens: number): UsageOutcome {
    const figures = this.#sum();
    const input = Math.max(inputTokens, (figures && inputOf(figures)) ?? 0);
    const output = Math.max(outputTokens, (figures && outputOf(figures)) ?? 0);
    const total = Math.min(maxTokens, input + output);
    const reported = figures === undefined ? -1 : totalOf(figures);
    if (reported >= total && reported <= maxTokens) return this.reported();
    return this.#counted(figures, { input: Math.min(maxTokens, input), output, total, estimated: true });
  }

  /** A report on the whole response takes precedence over reports on its parts. */
  #sum(): Figures | undefined {
    if (this.#figures !== undefined) return this.#figures;
    let sum: Figures | undefined;
    for (const part of this.#parts.values()) sum = sum === undefined ? part : sumOf(sum, part);
    return sum;
  }

  #counted(figures: Figures | undefined, { input, output, total, estimated }: Sums): UsageOutcome {
    const usage: TokenUsage = {
      ...(input !== undefined && { input }),
      ...(output !== undefined && { output }),
      total,
      ...(figures !== undefined && partsOf(figures, input, output)),
      ...(this.#model !== undefined && { model: this.#model }),
      estimated,
    };
    return { kind: "counted", usage };
  }
}

interface Sums {
  readonly input: number | undefined;
  readonly output: number | undefined;
  readonly total: number;
  readonly estimated: boolean;
}

/** Returns the parts of the input and of the output that the upstream reported. None exceeds the whole. */
function partsOf(
  figures: Figures,
  input = maxTokens,
  output = maxTokens,
): Pick<TokenUsage, "cachedInputTokens" | "cacheCreationTokens" | "reasoningTokens"> {
  const cached = figures.cacheRead ?? figures.cachedInput;
  const created = figures.cacheCreation ?? figures.createdInput;
  const reasoning = figures.thoughts ?? figures.reasoning;
  return {
    ...(cached !== undefined && { cachedInputTokens: Math.min(cached, input) }),
    ...(created !== undefined && { cacheCreationTokens: Math.min(created, input) }),
    ...(reasoning !== undefined && { reasoningTokens: Math.min(reasoning, output) }),
  };
}

/** Whether a figure has decreased. */
function isLess(now: Figures, before: Figures): boolean {
  return (outputOf(now) ?? 0) < (outputOf(before) ?? 0) || totalOf(now) < totalOf(before);
}

function sumOf(one: Figures, other: Figures): Figures {
  const sum = (read: (figures: Figures) => number | undefined) => {
    const [a, b] = [read(one), read(other)];
    return a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0);
  };
  return {
    ...noFigures,
    input: sum(inputOf),
    cachedInput: sum(({ cacheRead, cachedInput }) => cacheRead ?? cachedInput),
    createdInput: sum(({ cacheCreation, createdInput }) => cacheCreation ?? createdInput),
    output: sum(outputOf),
    reasoning: sum(({ thoughts, reasoning }) => thoughts ?? reasoning),
    total: sum(totalOf),
  };
}

/**
 * Reads one usage object. If it has a total, only that must be valid. Otherwise all its figures must be valid, since
 * the total is their sum. Parts of figures are not in the sum: an invalid one is ignored.
 *
 * @returns undefined if it contains no figures
 */
function readFigures(usage: unknown, isInner = false): Figures | "malformed" | undefined {
  if (usage === null) return undefined;
  if (typeof usage !== "object" || Array.isArray(usage)) return "malformed";
  const fields = new Map<string, unknown>(Object.entries(usage));
  const { total, ...summands } = mapValues(figureNames, (names) => readTokens(firstOf(fields, names)));
  if (total === "malformed") return "malformed";
  const values = Object.values(summands);
  if (total === undefined) {
    if (values.includes("malformed")) return "malformed";
    if (values.every((value) => value === undefined)) {
      const inner = isInner ? undefined : innerOf(fields);
      return typeof inner === "object" ? readFigures(inner, true) : undefined;
    }
  }
  for (const name of detailNames) addMembers(fields, fields.get(name));
  const parts = mapValues(partNames, (names) => validOr(readTokens(firstOf(fields, names))));
  return { ...mapValues(summands, validOr), total, ...parts };
}

function validOr(value: number | "malformed" | undefined): number | undefined {
  return value === "malformed" ? undefined : value;
}

/** Adds the members of `value`, if it is an object. No detail has the name of a figure. */
function addMembers(fields: Map<string, unknown>, value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  for (const [name, member] of Object.entries(value)) fields.set(name, member);
}

function firstOf(fields: ReadonlyMap<string, unknown>, names: readonly string[]): unknown {
  return fields.get(names.find((name) => fields.has(name)) ?? "");
}

function mapValues<Name extends string, From, To>(
  object: Readonly<Record<Name, From>>,
  map: (value: From) => To,
): Record<Name, To> {
  // Object.entries does not keep the type of the names.
  return Object.fromEntries(Object.entries<From>(object).map(([name, value]) => [name, map(value)])) as Record<
    Name,
    To
  >;
}

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
  const known = Object.entries(later).filter(([, value]) => value !== undefined);
  return { ...earlier, ...Object.fromEntries(known) };
}

/**
 * The whole input. Anthropic reports input that is written to or read from the cache separately. Servers that translate
 * its reports for OpenAI's clients repeat these figures, and contain them in the input: then the total shows that.
 */
function inputOf(figures: Figures): number | undefined {
  const { input, toolInput, cacheCreation, cacheRead, total } = figures;
  if ([input, toolInput, cacheCreation, cacheRead].every((figure) => figure === undefined)) return undefined;
  const plain = (input ?? 0) + (toolInput ?? 0);
  const sum = plain + (cacheCreation ?? 0) + (cacheRead ?? 0);
  const isRepeated = total !== undefined && input !== undefined && sum + (outputOf(figures) ?? 0) > total;
  return isRepeated ? plain : sum;
}

/** The whole output. Gemini reports the reasoning separately. */
function outputOf({ output, thoughts }: Figures): number | undefined {
  return output === undefined && thoughts === undefined ? undefined : (output ?? 0) + (thoughts ?? 0);
}

function totalOf(figures: Figures): number {
  return figures.total ?? (inputOf(figures) ?? 0) + (outputOf(figures) ?? 0);
}
