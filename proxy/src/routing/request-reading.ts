/**
 * Reads the parts of a request that matching needs. Headers and query are parsed once, at the first condition that
 * needs them. All work is charged to the budget of the request, so that neither the number of names in a query nor
 * their escapes can make a match expensive.
 */
import type { WorkBudget } from "../regex/work-budget.ts";

/** The parts of a request that routing reads. */
export interface RequestHead {
  readonly method: string;
  /** As `normalizePath` returned it, query included. */
  readonly path: string;
  /** The `Host` field or `:authority`; port and case do not matter. */
  readonly authority: string;
  /** Names and values alternate. Names are unique (`requestFields`). */
  readonly rawHeaders: readonly string[];
  /** The model of the request; absent while it is not read. */
  readonly model?: RequestModel;
}

/**
 * The header by which matches select a model. It exists in matches only: its value is the model that the request names,
 * and a field of this name is removed from the request (`requestFields`).
 */
export const modelHeader = "x-gateway-model";

/**
 * The model that a request names. `any` stands for each: a preflight request announces a request whose model it does
 * not name.
 */
export type RequestModel =
  | { readonly kind: "named"; readonly name: string }
  | { readonly kind: "none" }
  | { readonly kind: "any" };

/** Thrown by a search that needs the model of a request whose model is not read. */
export class ModelUnread extends Error {}

/** One for all, since the stack of each would cost more than the search. */
const modelUnread = new ModelUnread("the rule depends on the model, which is not read");

/** Units for each header field and each query parameter. */
const unitsPerName = 2;

/** Units for each character of a text that is read once. */
const unitsPerChar = 1 / 4;

/** Units for the exception that a value with a broken escape causes. */
const unitsPerBrokenValue = 150;

/** The reading of one request during its search. `budget` bounds the work. */
export class RequestReading {
  readonly method: string;
  /** The path without its query. */
  readonly pathname: string;
  readonly budget: WorkBudget;
  readonly #authority: string;
  readonly #rawHeaders: readonly string[];
  readonly #model: RequestModel | undefined;
  /** Undefined if there is no `?`. */
  readonly #queryText: string | undefined;
  #headers: ReadonlyMap<string, string> | undefined;
  #encodedQuery: ReadonlyMap<string, string> | undefined;
  readonly #query = new Map<string, string>();
  /** Further values of parameters that are not spelled like the first one. */
  #otherValues: ReadonlyMap<string, readonly string[]> | undefined;
  #isAmbiguous = false;

  constructor({ method, path, authority, rawHeaders, model }: RequestHead, budget: WorkBudget) {
    const queryStart = path.indexOf("?");
    this.method = method;
    this.pathname = queryStart === -1 ? path : path.slice(0, queryStart);
    this.#queryText = queryStart === -1 ? undefined : path.slice(queryStart + 1);
    this.#authority = authority;
    this.#rawHeaders = rawHeaders;
    this.#model = model;
    this.budget = budget;
  }

  /** The model of the request. Throws `ModelUnread` while it is not read. */
  get model(): RequestModel {
    if (this.#model === undefined) throw modelUnread;
    return this.#model;
  }

  /** Returns the value of a header other than `modelHeader`; `name` is in lower case. Throws `BudgetExceeded`. */
  header(name: string): string | undefined {
    // HTTP/2 clients send `:authority` instead.
    if (name === "host") return this.#authority;
    this.#headers ??= readHeaders(this.#rawHeaders, this.budget);
    return this.#headers.get(name);
  }

  /** Returns the decoded value of the first query parameter with this name. Throws `BudgetExceeded`. */
  query(name: string): string | undefined {
    if (this.#queryText === undefined) return undefined;
    if (this.#encodedQuery === undefined) {
      const { first, others } = readQuery(this.#queryText, this.budget);
      this.#encodedQuery = first;
      this.#otherValues = others;
    }
    const cached = this.#query.get(name);
    if (cached !== undefined) return cached;
    const encoded = this.#encodedQuery.get(name);
    if (encoded === undefined) return undefined;
    const value = decodeValue(encoded, this.budget);
    this.#query.set(name, value);
    for (const other of this.#otherValues?.get(name) ?? []) {
      if (decodeValue(other, this.budget) !== value) this.#isAmbiguous = true;
    }
    return value;
  }

  /**
   * Whether `query` has read a parameter that occurs twice with different values. Servers disagree about the value that
   * counts (`query-parameters.ts`), so a server could find another rule.
   */
  get isAmbiguous(): boolean {
    return this.#isAmbiguous;
  }
}

function readHeaders(rawHeaders: readonly string[], budget: WorkBudget): ReadonlyMap<string, string> {
  budget.spend((unitsPerName * rawHeaders.length) / 2);
  const headers = new Map<string, string>();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]?.toLowerCase() ?? "";
    if (!headers.has(name)) headers.set(name, rawHeaders[at + 1] ?? "");
  }
  return headers;
}

interface EncodedQuery {
  /** The encoded values, by decoded name. */
  readonly first: ReadonlyMap<string, string>;
  /** Undefined if no name occurs with different spellings of its value. */
  readonly others: ReadonlyMap<string, readonly string[]> | undefined;
}

function readQuery(text: string, budget: WorkBudget): EncodedQuery {
  budget.spend(unitsPerChar * text.length);
  const first = new Map<string, string>();
  let others: Map<string, string[]> | undefined;
  for (let from = 0; from <= text.length; ) {
    budget.spend(unitsPerName);
    const ampersand = text.indexOf("&", from);
    const end = ampersand === -1 ? text.length : ampersand;
    const parameter = text.slice(from, end);
    const equals = parameter.indexOf("=");
    const name = decodeName(equals === -1 ? parameter : parameter.slice(0, equals));
    const value = equals === -1 ? "" : parameter.slice(equals + 1);
    const firstValue = first.get(name);
    if (firstValue === undefined) {
      first.set(name, value);
    } else if (firstValue !== value) {
      others ??= new Map();
      const values = others.get(name);
      if (values === undefined) others.set(name, [value]);
      else values.push(value);
    }
    from = end + 1;
  }
  return { first, others };
}

/**
 * Form-decodes a name, byte by byte, because the names in conditions are tokens, which are ASCII. Throws no exception
 * for a broken escape, because a query may have thousands of them.
 */
function decodeName(encoded: string): string {
  if (!encoded.includes("%") && !encoded.includes("+")) return encoded;
  let name = "";
  for (let at = 0; at < encoded.length; at += 1) {
    const char = encoded.charAt(at);
    const byte = char === "%" ? hexByte(encoded, at + 1) : -1;
    if (byte !== -1) {
      name += String.fromCharCode(byte);
      at += 2;
    } else {
      name += char === "+" ? " " : char;
    }
  }
  return name;
}

/** Returns the byte of the two hexadecimal digits at `at`; -1 if they are not hexadecimal digits. */
function hexByte(text: string, at: number): number {
  const high = hexDigit(text.charCodeAt(at));
  const low = hexDigit(text.charCodeAt(at + 1));
  return high === -1 || low === -1 ? -1 : high * 16 + low;
}

/** Returns -1 for a code that is not a hexadecimal digit, such as NaN at the end of the text. */
function hexDigit(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x61 + 10 : -1;
}

/** Form-decodes a value. Returns a value with a broken escape unchanged. */
function decodeValue(encoded: string, budget: WorkBudget): string {
  if (!encoded.includes("%") && !encoded.includes("+")) return encoded;
  budget.spend(unitsPerChar * encoded.length);
  try {
    return decodeURIComponent(encoded.replaceAll("+", " "));
  } catch {
    budget.spend(unitsPerBrokenValue);
    return encoded;
  }
}
