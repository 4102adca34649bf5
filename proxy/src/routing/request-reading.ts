/**
 * What matching reads of one request. Headers and query are read once, at the first condition that needs them, however
 * many matches have such conditions. All work is charged to the budget of the request, so that what a match costs depends
 * neither on how many names a query has nor on how they are escaped.
 */
import type { WorkBudget } from "../regex/work-budget.ts";

/** What routing reads of a request. */
export interface RequestHead {
  readonly method: string;
  /** As `normalizePath` returned it, query included. */
  readonly path: string;
  /** The `Host` field or `:authority`; port and case do not matter. */
  readonly authority: string;
  /** Names and values in turn; each name comes once (`requestFields`). */
  readonly rawHeaders: readonly string[];
}

/** For each field of the header, and each parameter of the query. */
const unitsPerName = 2;

/** For text that is read once, by character. */
const unitsPerChar = 1 / 4;

/** For the exception that a value with a broken escape causes. */
const unitsPerBrokenValue = 150;

/** The reading of one request during its search. `budget` bounds the work. */
export class RequestReading {
  readonly method: string;
  /** The path without its query. */
  readonly pathname: string;
  readonly budget: WorkBudget;
  readonly #authority: string;
  readonly #rawHeaders: readonly string[];
  /** Absent where there is no `?`. */
  readonly #queryText: string | undefined;
  #headers: ReadonlyMap<string, string> | undefined;
  #encodedQuery: ReadonlyMap<string, string> | undefined;
  readonly #query = new Map<string, string>();
  /** Further values of parameters, where they are not spelled as the first. */
  #otherValues: ReadonlyMap<string, readonly string[]> | undefined;
  #isAmbiguous = false;

  constructor({ method, path, authority, rawHeaders }: RequestHead, budget: WorkBudget) {
    const queryStart = path.indexOf("?");
    this.method = method;
    this.pathname = queryStart === -1 ? path : path.slice(0, queryStart);
    this.#queryText = queryStart === -1 ? undefined : path.slice(queryStart + 1);
    this.#authority = authority;
    this.#rawHeaders = rawHeaders;
    this.budget = budget;
  }

  /** The value of a header; `name` is in lower case. Throws `BudgetExceeded`. */
  header(name: string): string | undefined {
    // HTTP/2 clients send `:authority` in its place.
    if (name === "host") return this.#authority;
    this.#headers ??= readHeaders(this.#rawHeaders, this.budget);
    return this.#headers.get(name);
  }

  /** The decoded value of the first query parameter of that name. Throws `BudgetExceeded`. */
  query(name: string): string | undefined {
    if (this.#queryText === undefined) return undefined;
    if (this.#encodedQuery === undefined) {
      const { first, others } = readQuery(this.#queryText, this.budget);
      this.#encodedQuery = first;
      this.#otherValues = others;
    }
    const known = this.#query.get(name);
    if (known !== undefined) return known;
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
   * Whether `query` was asked for a parameter that comes twice with different values. Servers disagree about which of them
   * counts (`query-parameters.ts`), so what was found by it may be what they would not find.
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
  /** By decoded name, values as they were sent. */
  readonly first: ReadonlyMap<string, string>;
  /** Absent where each name comes once, or always with one spelling of its value. */
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
    const known = first.get(name);
    if (known === undefined) {
      first.set(name, value);
    } else if (known !== value) {
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
 * Form decoding of a name, byte by byte: the names of conditions are tokens, which are ASCII. Without an exception for a
 * broken escape, since a query may have thousands of them.
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

/** The byte that two hexadecimal digits at `at` give; -1 where there are none. */
function hexByte(text: string, at: number): number {
  const high = hexDigit(text.charCodeAt(at));
  const low = hexDigit(text.charCodeAt(at + 1));
  return high === -1 || low === -1 ? -1 : high * 16 + low;
}

/** -1 for what is no hexadecimal digit, such as the end of the text (NaN). */
function hexDigit(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x61 + 10 : -1;
}

/** Form decoding; text with a broken escape is taken as it stands. */
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
