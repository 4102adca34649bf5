/**
 * Counters in Redis or a compatible server, shared by all replicas and with envoyproxy/ratelimit.
 *
 * The commands of all calls in one turn of the event loop are sent in one write, and the steps on one counter as one
 * command (`counter-command.ts`). EXPIRE is sent only when this process first uses a key, and again for a longer window
 * or when a reply shows that the counter was created again; so a busy counter costs one INCRBY a turn and no script.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import {
  type CounterChange,
  type CounterStep,
  type CounterStore,
  type GroupCounts,
  type GroupStep,
  type StoreConnections,
  StoreError,
} from "../../model/counter-store.ts";
import { CounterCommand, overflowReply, type PendingCall } from "./counter-command.ts";
import { ConnectionHealth } from "./connection-health.ts";
import { changeArgs, GroupCommand, noScriptReply, type PendingGroups } from "./group-command.ts";
import { RecentKeys } from "../recent-keys.ts";
import type { RedisLink, RedisReply } from "./redis-link.ts";
import { ServerClocks } from "./server-clocks.ts";

/** The connections, and the receivers of their errors. */
export interface RedisStoreOptions {
  /** The connections; `RedisStore.close` closes them. */
  readonly link: RedisLink;
  /** Timeout of a reply, in ms. */
  readonly timeoutMs: number;
  /** Keys outlive their window by up to this many seconds, at random, so that they do not all expire at once. */
  readonly jitterMaxSeconds: number;
  /** Times replies and probes. */
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Opens the link again after its connections were dropped, however long that takes; ends when the signal aborts. */
  readonly reopen: (signal: AbortSignal) => Promise<void>;
  /** Called for every error of a command or of a probe. */
  readonly onError: (error: Error) => void;
  /** Called for every successful reply, unless a connection is stalled. */
  readonly onReply?: (() => void) | undefined;
}

/** A process that counts more keys than this in a window sends EXPIRE twice for some. */
const rememberedKeys = 100_000;
/** Clients choose the length of keys; for a longer one, EXPIRE is sent with every count. */
const maxRememberedLength = 512;

/** A store of counters in Redis. */
export class RedisStore implements CounterStore {
  readonly #options: RedisStoreOptions;
  readonly #health: ConnectionHealth;
  readonly #clocks: ServerClocks;
  readonly #closing = new AbortController();
  /** Keys for which EXPIRE was sent, with the longest window in seconds. */
  readonly #expiring = new RecentKeys(rememberedKeys, maxRememberedLength);
  /** The commands of this turn in order, and the last one of each key, which may take further steps. */
  #commands: (CounterCommand | GroupCommand)[] = [];
  #lastOfKey = new Map<string, CounterCommand>();

  constructor(options: RedisStoreOptions) {
    this.#options = options;
    const { link, timeoutMs, clock, onError, onReply } = options;
    this.#health = new ConnectionHealth({ link, timeoutMs, clock, onReset: () => this.#reopen(), onError, onReply });
    this.#clocks = new ServerClocks(link, clock);
  }

  apply(steps: readonly CounterStep[]): readonly number[] | Promise<readonly number[]> {
    if (steps.length === 0) return [];
    return new Promise((resolve, reject) => {
      const call: PendingCall = { values: new Array<number>(steps.length), missing: steps.length, resolve, reject };
      for (let index = 0; index < steps.length; index++) {
        const step = steps[index];
        if (step !== undefined) this.#commandFor(step).add(step, call, index);
      }
    });
  }

  applyGroups(steps: readonly GroupStep[]): GroupCounts | Promise<GroupCounts> {
    if (steps.length === 0) return [];
    return new Promise((resolve, reject) => {
      const call: PendingGroups = { counts: [], missing: steps.length, resolve, reject };
      for (const [index, step] of steps.entries()) {
        this.#enqueue(new GroupCommand(step, this.#jitterSeconds(), call, index));
      }
    });
  }

  async change(changes: readonly CounterChange[]): Promise<number> {
    const { link, clock, timeoutMs } = this.#options;
    if (!link.isReady()) throw new StoreError("redis is not connected");
    const timeout = Promise.withResolvers<never>();
    const timer = clock.setTimer(timeoutMs, () => {
      timeout.reject(new StoreError(`redis did not respond within ${timeoutMs} ms`));
    });
    const sent = changes.map((change) => {
      this.#expiring.delete(change.key);
      return link.send(change.key, changeArgs(change, this.#jitterSeconds(), this.#clocks.aheadMs(change.key)));
    });
    try {
      const replies = await Promise.race([Promise.all(sent), timeout.promise]);
      return replies.filter((reply) => reply !== 0).length;
    } catch (error) {
      if (error instanceof StoreError) throw error;
      throw new StoreError(`redis: ${errorMessage(error)}`, { cause: error });
    } finally {
      timer.cancel();
    }
  }

  isHealthy(): boolean {
    return this.#health.isHealthy();
  }

  connections(): readonly StoreConnections[] {
    return [{ pool: "redis_pool", ...this.#options.link.connections.counts }];
  }

  close(): Promise<void> {
    this.#closing.abort();
    this.#health.close();
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
    this.#enqueue(command);
    this.#lastOfKey.set(key, command);
    return command;
  }

  #enqueue(command: CounterCommand | GroupCommand): void {
    if (this.#commands.length === 0) process.nextTick(() => this.#flush());
    this.#commands.push(command);
  }

  #jitterSeconds(): number {
    return Math.floor(this.#options.random() * this.#options.jitterMaxSeconds);
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
    let pending = commands.length;
    const timer = clock.setTimer(timeoutMs, () => this.#giveUp(commands));
    const replied = (): void => {
      pending--;
      if (pending === 0) timer.cancel();
    };
    for (const command of commands) this.#send(command, replied);
  }

  #send(command: CounterCommand | GroupCommand, replied: () => void): void {
    if (this.#health.isStalled(command.key)) {
      command.fail(new StoreError("redis does not respond"));
      replied();
    } else if (command instanceof GroupCommand) {
      this.#sendGroup(command, replied);
    } else {
      this.#sendCounter(command, replied);
    }
  }

  #sendGroup(command: GroupCommand, replied: () => void): void {
    const { key } = command;
    const clockRead = command.isSliding ? this.#clocks.read(key) : undefined;
    if (clockRead !== undefined) {
      void clockRead.then(() => {
        if (!command.isSettled) this.#sendGroup(command, replied);
      });
      return;
    }
    command.aheadMs = command.isSliding ? this.#clocks.aheadMs(key) : 0;
    const { link } = this.#options;
    const send = (isKnown: boolean): Promise<void> =>
      link.send(key, command.args(isKnown)).then(
        (reply) => {
          replied();
          this.#health.recordReply(key);
          command.settle(reply);
        },
        (error: unknown) => {
          if (isKnown && error instanceof Error && error.message.startsWith(noScriptReply)) return send(false);
          replied();
          command.fail(this.#errorOf(error));
          return undefined;
        },
      );
    void send(true);
  }

  #sendCounter(command: CounterCommand, replied: () => void): void {
    const { key } = command;
    const isCounting = command.sum > 0;
    const wasExpiring = isCounting && (this.#expiring.get(key) ?? 0) >= command.windowSeconds;
    this.#options.link.send(key, command.args()).then(
      (reply) => {
        replied();
        this.#health.recordReply(key);
        const value = numberOf(reply);
        command.settle(value);
        // Redis lost the counter, by a restart or an eviction: the new one has no expiry yet.
        if (wasExpiring && value === command.sum) this.#expire(command);
      },
      (error: unknown) => {
        replied();
        if (error instanceof Error && error.message === overflowReply) {
          this.#health.recordReply(key);
          command.settle(Infinity);
          return;
        }
        this.#expiring.delete(key);
        command.fail(this.#errorOf(error));
      },
    );
    if (isCounting && !wasExpiring) this.#expire(command);
  }

  /** Reports the error of a command, and returns it for the call. */
  #errorOf(error: unknown): StoreError {
    const text = errorMessage(error);
    // Before Redis 7, the error of a command in a script is at the end of the script's own.
    if (text.startsWith("READONLY") || text.includes(": -READONLY")) this.#health.recordReadOnly();
    const storeError = new StoreError(`redis: ${text}`, { cause: error });
    this.#options.onError(storeError);
    return storeError;
  }

  #expire(command: CounterCommand): void {
    const { key, windowSeconds } = command;
    const { link, onError } = this.#options;
    const seconds = windowSeconds + this.#jitterSeconds();
    this.#expiring.set(key, windowSeconds);
    link.send(key, command.expireArgs(seconds)).catch((error: unknown) => {
      this.#expiring.delete(key);
      // If the whole connection broke, the count has failed too, and is reported.
      if (link.isReady()) {
        onError(new StoreError(`redis does not set the expiry of a counter: ${String(error)}`, { cause: error }));
      }
    });
  }

  #giveUp(commands: readonly (CounterCommand | GroupCommand)[]): void {
    const error = new StoreError(`redis did not respond within ${this.#options.timeoutMs} ms`);
    this.#options.onError(error);
    for (const command of commands) {
      if (command.isSettled) continue;
      this.#health.recordTimeout(command.key);
      this.#expiring.delete(command.key);
      command.fail(error);
    }
  }
}

/** GET returns a string, or null for a counter that does not exist. */
function numberOf(reply: RedisReply): number {
  return typeof reply === "number" ? reply : Number(reply ?? 0);
}
