/**
 * Reads from a response whether its provider is out of quota, and until when: the status 429, `retry-after` (RFC 9110
 * §10.2.3), and the budgets that remain. OpenAI, Azure, Groq, Mistral and most gateways: `x-ratelimit-remaining-NAME`
 * and `x-ratelimit-reset-NAME`, or both without a name. Anthropic: `anthropic-ratelimit-NAME-remaining` and `-reset`.
 * Gemini has its reset in the body of a 429.
 */
import { fieldOf } from "@gatewayproxy/http/fields";
import { readRetryDelay } from "./provider-error.ts";

/** The quota of a provider, as a response shows it. */
export interface QuotaReading {
  /** Whether the next request would get a 429. */
  readonly isUsedUp: boolean;
  /** Milliseconds until the reset, at least 0; undefined if the response does not say it. */
  readonly resetMs: number | undefined;
}

const plenty: QuotaReading = { isUsedUp: false, resetMs: undefined };

/**
 * Returns the quota after a response.
 *
 * @param headers flat, names in lower case.
 * @param nowMs wall time, since resets may be dates.
 * @param body of a 429, as far as it has been read.
 */
export function readQuota(status: number, headers: readonly string[], nowMs: number, body = ""): QuotaReading {
  const isDenied = status === 429;
  if (!isDenied && !headers.some((text, at) => at % 2 === 0 && isBudgetField(text))) return plenty;
  const budgets = budgetsOf(headers, nowMs);
  const used = budgets.filter(({ remaining }) => remaining <= 0);
  const resets = used.flatMap(({ resetMs }) => resetMs ?? []);
  const resetMs = resets.length === 0 ? undefined : Math.max(...resets);
  // A success with a budget that is used up, and without its reset, may be of a budget that is refilled all the time.
  if (!isDenied) return resetMs === undefined ? plenty : { isUsedUp: true, resetMs };
  const retryMs = retryAfterMs(headers, nowMs) ?? readRetryDelay(body);
  // All budgets have a rest: the request was too large for it, and a smaller one is not.
  if (budgets.length > 0 && used.length === 0 && retryMs === undefined) return plenty;
  return { isUsedUp: true, resetMs: retryMs ?? resetMs };
}

interface Budget {
  readonly remaining: number;
  readonly resetMs: number | undefined;
}

const remainingField = /^x-ratelimit-remaining((?:-[a-z-]{1,40})?)$|^anthropic-ratelimit-([a-z-]{1,40})-remaining$/;

function isBudgetField(name: string): boolean {
  return remainingField.test(name);
}

function budgetsOf(headers: readonly string[], nowMs: number): readonly Budget[] {
  const budgets: Budget[] = [];
  for (let index = 0; index + 1 < headers.length; index += 2) {
    const [, suffix, kind] = remainingField.exec(headers[index] ?? "") ?? [];
    if (suffix === undefined && kind === undefined) continue;
    const remaining = numberOf(headers[index + 1] ?? "");
    if (remaining === undefined) continue;
    const reset = kind === undefined ? `x-ratelimit-reset${suffix ?? ""}` : `anthropic-ratelimit-${kind}-reset`;
    budgets.push({ remaining, resetMs: timeUntil(fieldOf(headers, reset), nowMs) });
  }
  return budgets;
}

function retryAfterMs(headers: readonly string[], nowMs: number): number | undefined {
  const precise = numberOf(fieldOf(headers, "retry-after-ms") ?? "");
  return precise ?? timeUntil(fieldOf(headers, "retry-after"), nowMs);
}

/** A number above this many seconds is a time since the epoch. */
const minEpochSeconds = 1_000_000_000;
const unitsMs: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };

/** Reads seconds, a duration (`6m0s`, `20ms`), seconds or milliseconds since the epoch, or a date. */
function timeUntil(text: string | undefined, nowMs: number): number | undefined {
  if (text === undefined || text.length > 64) return undefined;
  const value = text.trim();
  const number = numberOf(value);
  if (number !== undefined) {
    if (number < minEpochSeconds) return number * 1_000;
    return Math.max(0, (number < minEpochSeconds * 1_000 ? number * 1_000 : number) - nowMs);
  }
  if (/^(?:\d{1,9}(?:\.\d{1,9})?(?:ms|[smhd])){1,5}$/.test(value)) {
    let ms = 0;
    for (const [, amount = "", unit = ""] of value.matchAll(/(\d{1,9}(?:\.\d{1,9})?)(ms|[smhd])/gy)) {
      ms += Number(amount) * (unitsMs[unit] ?? 0);
    }
    return ms;
  }
  const dateMs = Date.parse(value);
  return Number.isNaN(dateMs) ? undefined : Math.max(0, dateMs - nowMs);
}

/** Returns a number of digits, and undefined for any other text. */
function numberOf(text: string): number | undefined {
  return /^\s*-?\d{1,15}(?:\.\d{1,9})?\s*$/.test(text) ? Math.max(0, Number(text)) : undefined;
}
