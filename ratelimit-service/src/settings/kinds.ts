/** Kinds of settings that only the rate limit service has: the syntax of Go, which envoyproxy/ratelimit uses. */
import type { LogFilter } from "@gatewayproxy/runtime/log-filter";
import { logFilter, optional, type SettingKind, text } from "@gatewayproxy/runtime/setting-kinds";

/** A file of certificates or keys. */
export const pemFile = optional(text("FILE", "the path of a PEM file"));

/** True and false as Go's strconv.ParseBool accepts them. */
export const flag: SettingKind<boolean> = {
  placeholder: "",
  accepted: "true or false",
  parse(value) {
    if (/^(?:1|t|T|true|TRUE|True)$/.test(value)) return true;
    return /^(?:0|f|F|false|FALSE|False)$/.test(value) ? false : undefined;
  },
};

const msOfUnit: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  // The micro sign, and the Greek letter.
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};

/** Levels that only envoyproxy/ratelimit has, with the equivalent level here. */
const referenceLevels: Readonly<Record<string, string>> = { warning: "warn", fatal: "error", panic: "error" };

/** A log filter that also accepts envoyproxy/ratelimit's names of levels. */
export function referenceLogFilter(modules: readonly string[]): SettingKind<LogFilter> {
  const ownFilter = logFilter(modules);
  return { ...ownFilter, parse: (value) => ownFilter.parse(referenceLevels[value.toLowerCase()] ?? value) };
}

/** A duration in Go's syntax (`24h`, `1h30m`, `150us`, `0`), converted to milliseconds. */
export const duration: SettingKind<number> = {
  placeholder: "DURATION",
  accepted: "a duration such as 150us, 500ms, 10s or 1h30m",
  parse(value) {
    const text = value.replace(/^\+/, "");
    if (text === "0") return 0;
    if (!/^(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/.test(text)) return undefined;
    let ms = 0;
    for (const [, amount, unit] of text.matchAll(/(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g)) {
      ms += Number(amount) * (msOfUnit[unit ?? ""] ?? 0);
    }
    return ms;
  },
};

/** A whole number as Go's strconv.ParseInt reads it (`0x400`, `1_000`, `010` is eight), within both bounds. */
export function integer(min: number, max: number): SettingKind<number> {
  return {
    placeholder: "N",
    accepted: `a whole number from ${min} to ${max}`,
    parse(value) {
      const number = goInteger(value);
      return number !== undefined && number >= min && number <= max ? number : undefined;
    },
  };
}

/** Returns `undefined` for anything else. */
function goInteger(text: string): number | undefined {
  const [, sign = "", prefix, digits] = /^([-+]?)(0[xX]_?|0[bB]_?|0[oO]?_?)?(\w+)$/.exec(text) ?? [];
  if (digits === undefined || !/^[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*$/.test(digits)) return undefined;
  const base = prefix === undefined ? "" : /x/i.test(prefix) ? "0x" : /b/i.test(prefix) ? "0b" : "0o";
  // Some texts of hexadecimal digits are not numbers of the base.
  if (base === "" && !/^[\d_]+$/.test(digits)) return undefined;
  const number = Number(base + digits.replaceAll("_", ""));
  if (Number.isNaN(number)) return undefined;
  return sign === "-" ? -number : number;
}

/** A decimal number as Go's strconv.ParseFloat reads it, within both bounds. */
export function decimal(min: number, max: number): SettingKind<number> {
  return {
    placeholder: "X",
    accepted: `a number from ${min} to ${max}`,
    parse(value) {
      const number = Number(value);
      return /^\+?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/.test(value) && number >= min && number <= max
        ? number
        : undefined;
    },
  };
}

/** A list of `name<separator>value,…`, with any of the given separators. */
export function pairs(...separators: readonly string[]): SettingKind<ReadonlyMap<string, string>> {
  const shape = separators.map((separator) => `NAME${separator}VALUE,…`).join(" or ");
  return {
    placeholder: shape,
    accepted: shape,
    parse(value) {
      const entries = value.split(",").map((pair) => splitPair(pair, separators));
      return entries.every((entry) => entry !== undefined) ? new Map(entries) : undefined;
    },
  };
}

function splitPair(pair: string, separators: readonly string[]): readonly [string, string] | undefined {
  const positions = separators.map((separator) => pair.indexOf(separator)).filter((position) => position > 0);
  if (positions.length === 0) return undefined;
  const position = Math.min(...positions);
  return [pair.slice(0, position).trim(), pair.slice(position + 1).trim()];
}

/** One of a few words, in any case. */
export function word<const T extends string>(...words: readonly T[]): SettingKind<T> {
  return {
    placeholder: words.join("|"),
    accepted: `one of ${words.join(", ")}`,
    parse: (value) => words.find((candidate) => candidate.toLowerCase() === value.toLowerCase()),
  };
}
