/**
 * Counters in Redis, or in what speaks its protocol, shared by all replicas and with the reference service.
 *
 * What several calls of one turn of the event loop ask goes out in one write, and one counter's steps in one command
 * (`counter-command.ts`). EXPIRE goes along only when this process meets a key for the first time, and is repeated for a
 * longer window and when a reply shows that the counter began anew; so a counter of many calls costs one INCRBY a turn
 * and no script.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { type CounterStep, type CounterStore, type StoreConnections, StoreError } from "../counter-store.ts";
import { CounterCommand, overflowReply, type WaitingCall } from "./counter-command.ts";
import { LaneWatch } from "./lane-watch.ts";
import { RecentKeys } from "../recent-keys.ts";
import type { RedisLink, RedisReply } from "./redis-link.ts";

export interface RedisStoreOptions {
  readonly link: RedisLink;
  /** For an answer, in ms. */
  readonly timeoutMs: number;
  /** Keys outlive their window by up to so many seconds, so that they do not all end at once. */
  readonly jitterMaxSeconds: number;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Opens the link again after its connections were dropped, however long that takes; ends when the signal aborts. */
  readonly reopen: (signal: AbortSignal) => Promise<void>;
  /** Told of every fault of a command or of a probe. */
  readonly onError: (error: Error) => void;
  /** Told of every answer that is no fault, unless another lane owes one. */
  readonly onAnswer?: (() => void) | undefined;
}

/** A process that counts more keys than this in a window sends some EXPIRE twice. */
const rememberedKeys = 100_000;
/** Clients choose how long a key is; of a longer one every count tells the end anew. */
const maxRememberedLength = 512;

export class RedisStore implements CounterStore {
  readonly #options: RedisStoreOptions;
  readonly #lanes: LaneWatch;
  readonly #closing = new AbortController();
  /** Keys that Redis was told to expire, with the longest window in seconds for which it was. */
  readonly #expiring = new RecentKeys(rememberedKeys, maxRememberedLength);
  /** The commands of this turn, in order, and by key the last one, which may take further steps. */
  #commands: CounterCommand[] = [];
  #lastOfKey = new Map<string, CounterCommand>();

  constructor(options: RedisStoreOptions) {
    this.#options = options;
    const { link, timeoutMs, clock, onError, onAnswer } = options;
    this.#lanes = new LaneWatch({ link, timeoutMs, clock, onReset: () => this.#reopen(), onError, onAnswer });
  }

  apply(steps: readonly CounterStep[]): readonly number[] | Promise<readonly number[]> {
    if (steps.length === 0) return [];
    return new Promise((resolve, reject) => {
      const call: WaitingCall = { values: new Array<number>(steps.length), missing: steps.length, resolve, reject };
      for (let place = 0; place < steps.length; place++) {
        const step = steps[place];
        if (step !== undefined) this.#commandFor(step).add(step, call, place);
      }
    });
  }

  isHealthy(): boolean {
    return this.#lanes.isHealthy();
  }

  connections(): readonly StoreConnections[] {
    return [{ pool: "redis_pool", ...this.#options.link.connections.counts }];
  }

  close(): Promise<void> {
    this.#closing.abort();
    this.#lanes.close();
    return this.#options.link.close();
  }

  #reopen(): void {
    this.#expiring.clear();
    this.#options.reopen(this.#closing.signal).catch(this.#options.onError);
  }

  #commandFor({ key, hits }: CounterStep): CounterCommand {
    const last = this.#lastOfKey.get(key);
    if (last?.accepts(hits) === true) return last;
    const command = new CounterCommand(key);
    if (this.#commands.length === 0) process.nextTick(() => this.#flush());
    this.#commands.push(command);
    this.#lastOfKey.set(key, command);
    return command;
  }

  #flush(): void {
    const commands = this.#commands;
    this.#commands = [];
    this.#lastOfKey = new Map();
    const { link, clock, timeoutMs } = this.#options;
    if (!link.isReady()) {
      const error = new StoreError("redis is not connected");
      this.#options.onError(error);
      for (const command of commands) command.fail(error);
      return;
    }
    let unanswered = commands.length;
    const timer = clock.setTimer(timeoutMs, () => this.#giveUp(commands));
    const answered = (): void => {
      unanswered--;
      if (unanswered === 0) timer.cancel();
    };
    for (const command of commands) this.#send(command, answered);
  }

  #send(command: CounterCommand, answered: () => void): void {
    const { key } = command;
    if (this.#lanes.isStalled(key)) {
      command.fail(new StoreError("redis does not answer"));
      answered();
      return;
    }
    const isCounting = command.sum > 0;
    const wasExpiring = isCounting && (this.#expiring.get(key) ?? 0) >= command.windowSeconds;
    this.#options.link.send(key, command.words()).then(
      (reply) => {
        answered();
        this.#lanes.heard(key);
        const value = numberOf(reply);
        command.settle(value);
        // Redis lost the counter, by a restart or for want of memory: the new one has no end yet.
        if (wasExpiring && value === command.sum) this.#expire(command);
      },
      (error: unknown) => {
        answered();
        const text = error instanceof Error ? error.message : String(error);
        if (text === overflowReply) {
          this.#lanes.heard(key);
          command.settle(Infinity);
          return;
        }
        this.#expiring.delete(key);
        if (text.startsWith("READONLY")) this.#lanes.foundReadOnly();
        const fault = new StoreError(`redis: ${text}`, { cause: error });
        this.#options.onError(fault);
        command.fail(fault);
      },
    );
    if (isCounting && !wasExpiring) this.#expire(command);
  }

  #expire(command: CounterCommand): void {
    const { key, windowSeconds } = command;
    const { link, jitterMaxSeconds, random, onError } = this.#options;
    const seconds = windowSeconds + Math.floor(random() * jitterMaxSeconds);
    this.#expiring.set(key, windowSeconds);
    link.send(key, command.wordsOfEnd(seconds)).catch((error: unknown) => {
      this.#expiring.delete(key);
      // Where the whole connection broke, the count has failed, too, and says so.
      if (link.isReady()) onError(new StoreError(`redis gives counters no end: ${String(error)}`, { cause: error }));
    });
  }

  #giveUp(commands: readonly CounterCommand[]): void {
    const error = new StoreError(`redis did not answer within ${this.#options.timeoutMs} ms`);
    this.#options.onError(error);
    for (const command of commands) {
      if (command.isSettled) continue;
      this.#lanes.missed(command.key);
      this.#expiring.delete(command.key);
      command.fail(error);
    }
  }
}

/** GET answers a text, or null for a counter that does not exist. */
function numberOf(reply: RedisReply): number {
  return typeof reply === "number" ? reply : Number(reply ?? 0);
}
