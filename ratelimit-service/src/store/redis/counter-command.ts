/**
 * The steps that one turn of the event loop takes on one counter, as one command. Redis adds their sum, and each step's
 * own value follows from the reply: with steps of 1, 2 and 0 and a reply of 13 they were 11, 13 and 13. That is what
 * Redis would have answered to three commands in a row, because nothing else can come between them here or there.
 */

/** A call that waits for the values of all its steps. */
export interface WaitingCall {
  readonly values: number[];
  /** Steps without a value yet. */
  missing: number;
  readonly resolve: (values: readonly number[]) => void;
  readonly reject: (error: Error) => void;
}

/** A step back that stops at 0 and leaves a counter that does not exist alone. */
const giveBackScript = `
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
local hits = math.min(count, tonumber(ARGV[1]))
if hits <= 0 then return count end
return redis.call('DECRBY', KEYS[1], string.format('%.0f', hits))`;

export class CounterCommand {
  readonly key: string;
  readonly windowSeconds: number;
  /** What is added in sum; below 0 for a step back, which stands alone. */
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

  /** Adds a step: the call's at `place`. */
  add(hits: number, call: WaitingCall, place: number): void {
    this.sum += hits;
    this.#calls.push(call);
    this.#places.push(place);
    this.#sums.push(this.sum);
  }

  /** In the words of the protocol. A read creates nothing, which INCRBY with 0 would. */
  words(): string[] {
    if (this.sum > 0) return ["INCRBY", this.key, String(this.sum)];
    if (this.sum === 0) return ["GET", this.key];
    return ["EVAL", giveBackScript, "1", this.key, String(-this.sum)];
  }

  /** Gives every step its value. May come after `fail`, and changes nothing then. */
  settle(value: number): void {
    this.isSettled = true;
    const before = value - this.sum;
    for (let i = 0; i < this.#calls.length; i++) {
      const call = this.#calls[i];
      if (call === undefined) continue;
      call.values[this.#places[i] ?? 0] = before + (this.#sums[i] ?? 0);
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
