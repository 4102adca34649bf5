/**
 * The steps that one turn of the event loop takes on one counter, as one command. Redis adds their sum, and each step's
 * own value follows from the reply: with steps of 1, 2 and 0 and a reply of 13 they were 11, 13 and 13. That is what
 * Redis would have answered to three commands in a row, because nothing else can come between them here or there.
 *
 * A counter in Redis stands for `maxCount` when it holds that or more. So INCRBY, which knows no ceiling, is right for
 * what is added as long as it is small; what gives back, or adds more, is a script that begins at the ceiling at most.
 * INCRBY refuses to pass 2^63, which only a counter far beyond the ceiling can meet: that is no failure of Redis.
 */
import { unitSeconds } from "../../config/unit.ts";
import { type CounterStep, maxCount } from "../counter-store.ts";

/** A call that waits for the values of all its steps. */
export interface WaitingCall {
  readonly values: number[];
  /** Steps without a value yet. */
  missing: number;
  readonly resolve: (values: readonly number[]) => void;
  readonly reject: (error: Error) => void;
}

/** Adds or gives back within 0 and the ceiling, and keeps the end of a counter; one that does not exist is not opened by a step back. */
const boundedStepScript = `
local ceiling = ${maxCount}
local text = redis.call('GET', KEYS[1]) or '0'
local count = tonumber(text)
local hits = tonumber(ARGV[1])
if count > ceiling then
  redis.call('DECRBY', KEYS[1], text)
  count = redis.call('INCRBY', KEYS[1], string.format('%.0f', ceiling))
end
local step = math.max(hits, -math.max(count, 0))
if hits > 0 then step = math.min(hits, ceiling - count) end
if step == 0 then return count end
return redis.call('INCRBY', KEYS[1], string.format('%.0f', step))`;

/** Gives a counter an end unless it has a later one. EXPIRE's own option for that (GT) came with Redis 7. */
const laterEndScript = `
if redis.call('TTL', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
return redis.call('EXPIRE', KEYS[1], ARGV[1])`;

/** The most that one INCRBY adds: what a limit can be. It takes 2^31 of them to move a counter from the ceiling to 2^63. */
const maxIncrement = 2 ** 32 - 1;

/** What Redis answers to an INCRBY that would pass 2^63. */
export const overflowReply = "ERR increment or decrement would overflow";

export class CounterCommand {
  readonly key: string;
  /** The longest of the steps' windows. Limits of different units have one counter where their windows start together. */
  windowSeconds = 0;
  /** Whether a longer window may start when this one does, so that another process may know a later end of the counter. */
  mayHaveLaterEnd = false;
  /** What is added in sum; below 0 for a step back. */
  sum = 0;
  /** Every step has its value, or was refused. */
  isSettled = false;
  readonly #calls: WaitingCall[] = [];
  readonly #places: number[] = [];
  /** The sum up to and with each step. */
  readonly #sums: number[] = [];

  constructor(key: string) {
    this.key = key;
  }

  /** Whether a step may be added after those that are there. */
  accepts(hits: number): boolean {
    return this.#calls.length === 0 || (hits >= 0 && this.sum >= 0 && this.sum + hits <= maxIncrement);
  }

  /** Adds a step that is accepted: the call's at `place`. */
  add({ hits, windowSeconds, windowEndSeconds }: CounterStep, call: WaitingCall, place: number): void {
    this.sum += hits;
    if (windowSeconds > this.windowSeconds) {
      this.windowSeconds = windowSeconds;
      this.mayHaveLaterEnd = startsLongerWindow(windowSeconds, windowEndSeconds - windowSeconds);
    }
    this.#calls.push(call);
    this.#places.push(place);
    this.#sums.push(this.sum);
  }

  /** In the words of the protocol. A read creates nothing, which INCRBY with 0 would. */
  words(): string[] {
    if (this.sum === 0) return ["GET", this.key];
    if (this.sum > 0 && this.sum <= maxIncrement) return ["INCRBY", this.key, String(this.sum)];
    return ["EVAL", boundedStepScript, "1", this.key, String(this.sum)];
  }

  /** The command that gives the counter its end in so many seconds, for the time after it was counted. */
  wordsOfEnd(seconds: number): string[] {
    if (this.mayHaveLaterEnd) return ["EVAL", laterEndScript, "1", this.key, String(seconds)];
    return ["EXPIRE", this.key, String(seconds)];
  }

  /** Gives every step its value; `value` is the counter's after all of them. May come after `fail`, and changes nothing then. */
  settle(value: number): void {
    this.isSettled = true;
    const before = value - this.sum;
    for (let i = 0; i < this.#calls.length; i++) {
      const call = this.#calls[i];
      if (call === undefined) continue;
      call.values[this.#places[i] ?? 0] = Math.min(maxCount, before + (this.#sums[i] ?? 0));
      call.missing--;
      if (call.missing === 0) call.resolve(call.values);
    }
  }

  /** Refuses every call that has a step here. */
  fail(error: Error): void {
    this.isSettled = true;
    for (const call of this.#calls) call.reject(error);
  }
}

/** Whether a window of a longer unit begins at the start of this one. */
function startsLongerWindow(windowSeconds: number, startSeconds: number): boolean {
  return unitLengths.some((length) => length > windowSeconds && startSeconds % length === 0);
}

const unitLengths = Object.values(unitSeconds);
