/**
 * The steps on one counter in one turn of the event loop, as one command. Redis adds their sum, and each step's value
 * follows from the reply: with steps of 1, 2 and 0 and a reply of 13, the values are 11, 13 and 13. Three commands in a
 * row would give the same values, because nothing else can come between them.
 *
 * A value of `maxCount` or more in Redis means `maxCount`. So INCRBY, which has no ceiling, is correct for small
 * additions; refunds and larger additions use a script that starts from at most the ceiling. INCRBY returns an error
 * beyond 2^63, which only a counter far above the ceiling can reach; that is not a failure of Redis.
 */
import { unitSeconds } from "../../model/unit.ts";
import { type CounterStep, maxCount } from "../../model/counter-store.ts";

/** A call that waits for the values of all its steps. */
export interface PendingCall {
  readonly values: number[];
  /** Steps without a value yet. */
  missing: number;
  readonly resolve: (values: readonly number[]) => void;
  readonly reject: (error: Error) => void;
}

/** Adds or refunds between 0 and the ceiling, and keeps the expiry of a counter. A refund does not create a counter. */
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

/** Sets the expiry of a counter unless it has a later one. EXPIRE has an option for that (GT) only since Redis 7. */
const laterEndScript = `
if redis.call('TTL', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
return redis.call('EXPIRE', KEYS[1], ARGV[1])`;

/** Largest sum of one INCRBY: the largest limit. It takes 2^31 of them to move a counter from the ceiling to 2^63. */
const maxIncrement = 2 ** 32 - 1;

/** The reply of Redis to an INCRBY that would exceed 2^63. */
export const overflowReply = "ERR increment or decrement would overflow";

/** A command for one counter. It takes steps until it is sent, and gives each its value with `settle` or `fail`. */
export class CounterCommand {
  readonly key: string;
  /**
   * The longest time to keep of the steps, for fixed windows their length. Limits of different units share a counter
   * when their windows start together.
   */
  windowSeconds = 0;
  /** Whether a longer window may start at the same time, so that another process may have set a later expiry. */
  mayHaveLaterEnd = false;
  /** Sum of the steps; below 0 for a refund. */
  sum = 0;
  /** Whether every step has its value, or was rejected. */
  isSettled = false;
  readonly #calls: PendingCall[] = [];
  readonly #indexes: number[] = [];
  /** The sum up to and with each step. */
  readonly #sums: number[] = [];

  constructor(key: string) {
    this.key = key;
  }

  /** Whether another step may be added. */
  accepts(hits: number): boolean {
    return this.#calls.length === 0 || (hits >= 0 && this.sum >= 0 && this.sum + hits <= maxIncrement);
  }

  /** Adds a step for which `accepts` is true: the one at `index` in the call. */
  add(step: CounterStep, call: PendingCall, index: number): void {
    const { hits, windowSeconds, windowEndSeconds, keepSeconds = windowSeconds } = step;
    this.sum += hits;
    if (keepSeconds > this.windowSeconds) {
      this.windowSeconds = keepSeconds;
      this.mayHaveLaterEnd = startsLongerWindow(windowSeconds, windowEndSeconds - windowSeconds);
    }
    this.#calls.push(call);
    this.#indexes.push(index);
    this.#sums.push(this.sum);
  }

  /** Returns the arguments of the command. A read uses GET, which creates nothing; INCRBY with 0 would. */
  args(): string[] {
    if (this.sum === 0) return ["GET", this.key];
    if (this.sum > 0 && this.sum <= maxIncrement) return ["INCRBY", this.key, String(this.sum)];
    return ["EVAL", boundedStepScript, "1", this.key, String(this.sum)];
  }

  /** Returns the arguments of the command that sets the expiry in seconds, sent after the count. */
  expireArgs(seconds: number): string[] {
    if (this.mayHaveLaterEnd) return ["EVAL", laterEndScript, "1", this.key, String(seconds)];
    return ["EXPIRE", this.key, String(seconds)];
  }

  /** Gives every step its value; `value` is the counter's after all of them. Has no effect on calls after `fail`. */
  settle(value: number): void {
    this.isSettled = true;
    const before = value - this.sum;
    for (let i = 0; i < this.#calls.length; i++) {
      const call = this.#calls[i];
      if (call === undefined) continue;
      call.values[this.#indexes[i] ?? 0] = Math.min(maxCount, before + (this.#sums[i] ?? 0));
      call.missing--;
      if (call.missing === 0) call.resolve(call.values);
    }
  }

  /** Rejects every call that has a step here. */
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
