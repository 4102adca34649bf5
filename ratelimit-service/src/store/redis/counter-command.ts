/**
 * The steps that one turn of the event loop takes on one counter, as one command. Redis adds their sum, and each step's
 * own value follows from the reply: with steps of 1, 2 and 0 and a reply of 13 they were 11, 13 and 13. That is what
 * Redis would have answered to three commands in a row, because nothing else can come between them here or there.
 *
 * A counter in Redis stands for `maxCount` when it holds that or more. So INCRBY, which knows no ceiling, is right for
 * what is added as long as it is small; what gives back, or adds more, is a script that begins at the ceiling at most.
 * INCRBY refuses to pass 2^63, which only a counter far beyond the ceiling can meet: that is no failure of Redis.
 */
import { maxCount } from "../counter-store.ts";

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

/** The most that one INCRBY adds: what a limit can be. It takes 2^31 of them to move a counter from the ceiling to 2^63. */
const maxIncrement = 2 ** 32 - 1;

/** What Redis answers to an INCRBY that would pass 2^63. */
export const overflowReply = "ERR increment or decrement would overflow";

export class CounterCommand {
  readonly key: string;
  readonly windowSeconds: number;
  /** What is added in sum; below 0 for a step back. */
  sum = 0;
  /** Every step has its value, or was refused. */
  isSettled = false;
  readonly #calls: WaitingCall[] = [];
  readonly #places: number[] = [];
  /** The sum up to and with each step. */
  readonly #sums: number[] = [];

  constructor(key: string, windowSeconds: number) {
    this.key = key;
    this.windowSeconds = windowSeconds;
  }

  /** Whether a step may be added after those that are there. */
  accepts(hits: number): boolean {
    return this.#calls.length === 0 || (hits >= 0 && this.sum >= 0 && this.sum + hits <= maxIncrement);
  }

  /** Adds a step that is accepted: the call's at `place`. */
  add(hits: number, call: WaitingCall, place: number): void {
    this.sum += hits;
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
