/**
 * Groups of counters in Redis: one script reads the counters of a descriptor, decides, and counts. A counter of an
 * aligned window is a number, as the others are; a sliding window is a hash with the hits of each sub-window by its
 * number. All keys of a group have one hash tag, so a cluster runs the script on one node.
 *
 * `sliding-table.ts` counts in the same way in memory, and says why hits move when a clock was set back.
 */
import { createHash } from "node:crypto";
import {
  type CounterChange,
  type GroupCount,
  type GroupCounter,
  type GroupStep,
  maxCount,
  StoreError,
} from "../../model/counter-store.ts";
import { subWindowAt, subWindows } from "@gatewayproxy/runtime/sliding-window";
import { keepSecondsOf } from "../../model/limit-window.ts";
import type { RedisReply } from "./redis-link.ts";

/**
 * ARGV: hits, 1 if hits beyond a limit count, and for each key: its limit, the seconds to keep it, and the sub-window
 * of the call, or an empty text for an aligned window. Returns for each key the count before, and for a sliding window
 * the sub-window that must leave, or `-`: `5 - 12 29166733`.
 */
const groupScript = `
local ceiling = ${maxCount}
local hits, always = tonumber(ARGV[1]), ARGV[2] == '1'
local counts, windows, reply = {}, {}, {}
local passes = true

local function readWindow(key, now)
  local fields = redis.call('HGETALL', key)
  local window = {newest = now, order = {}, hits = {}, sum = 0, old = {}}
  for i = 1, #fields, 2 do window.newest = math.max(window.newest, tonumber(fields[i])) end
  local isFarAhead = window.newest > now + ${subWindows}
  for i = 1, #fields, 2 do
    local at, count = tonumber(fields[i]), tonumber(fields[i + 1])
    if at < window.newest - ${subWindows} then
      table.insert(window.old, fields[i])
    else
      table.insert(window.order, at)
      window.hits[at] = count
      window.sum = math.min(ceiling, window.sum + count)
    end
  end
  if isFarAhead then
    local ttl = redis.call('TTL', key)
    redis.call('DEL', key)
    redis.call('HSET', key, string.format('%.0f', now), string.format('%.0f', window.sum))
    redis.call('EXPIRE', key, ttl)
    window.newest, window.order, window.hits, window.old = now, {now}, {[now] = window.sum}, {}
  end
  table.sort(window.order)
  return window
end

for i, key in ipairs(KEYS) do
  local limit, now = tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 2])
  if now then
    local window = readWindow(key, now)
    local left, frees = math.max(1, window.sum + math.max(1, hits) - limit), '-'
    for _, at in ipairs(window.order) do
      if left <= 0 then break end
      if window.hits[at] > 0 then frees = string.format('%.0f', at) end
      left = left - window.hits[at]
    end
    counts[i], windows[i] = window.sum, window
    table.insert(reply, string.format('%.0f', window.sum))
    table.insert(reply, frees)
  else
    counts[i] = math.min(ceiling, tonumber(redis.call('GET', key) or '0'))
    table.insert(reply, string.format('%.0f', counts[i]))
    table.insert(reply, '-')
  end
  if counts[i] + hits > limit then passes = false end
end

local function countAligned(key, count, keep)
  local step = math.max(-count, math.min(hits, ceiling - count))
  if step ~= 0 then redis.call('INCRBY', key, string.format('%.0f', step)) end
  if hits > 0 and redis.call('TTL', key) < tonumber(keep) then redis.call('EXPIRE', key, keep) end
end

local function refundWindow(key, window)
  local left = -hits
  for _, at in ipairs(window.order) do
    local taken = math.min(left, window.hits[at])
    if taken > 0 then
      redis.call('HINCRBY', key, string.format('%.0f', at), string.format('%.0f', -taken))
      left = left - taken
    end
  end
end

if hits < 0 or (hits > 0 and (passes or always)) then
  for i, key in ipairs(KEYS) do
    local keep, window = ARGV[3 * i + 1], windows[i]
    if not window then
      countAligned(key, counts[i], keep)
    elseif hits < 0 then
      refundWindow(key, window)
    else
      local step = math.min(hits, ceiling - window.sum)
      for _, field in ipairs(window.old) do redis.call('HDEL', key, field) end
      redis.call('HINCRBY', key, string.format('%.0f', window.newest), string.format('%.0f', step))
      redis.call('EXPIRE', key, keep)
    end
  end
end
return table.concat(reply, ' ')`;

/** The digest by which Redis knows the script once it has run it. */
let groupScriptDigest: string | undefined;

function digestOfGroupScript(): string {
  groupScriptDigest ??= createHash("sha1").update(groupScript).digest("hex");
  return groupScriptDigest;
}

/** Beginning of the reply of a server that has not run the script since its start, and has counted nothing. */
export const noScriptReply = "NOSCRIPT";

/** Replaces a sliding window. ARGV: sub-window, hits, seconds to keep it. */
const setWindowScript = `
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('EXPIRE', KEYS[1], ARGV[3])`;

/** A call that waits for its groups. */
export interface PendingGroups {
  readonly counts: (readonly GroupCount[])[];
  /** Groups without a reply yet. */
  missing: number;
  readonly resolve: (counts: readonly (readonly GroupCount[])[]) => void;
  readonly reject: (error: Error) => void;
}

/** A command for the counters of one group, with the interface of `CounterCommand`. */
export class GroupCommand {
  readonly key: string;
  isSettled = false;
  /** Whether it counts in sliding windows, by the clock of the server. */
  readonly isSliding: boolean;
  /** As `ServerClocks.aheadMs`. */
  aheadMs = 0;
  readonly #step: GroupStep;
  readonly #jitterSeconds: number;
  readonly #call: PendingGroups;
  readonly #index: number;

  /** @param index of the step in the call */
  constructor(step: GroupStep, jitterSeconds: number, call: PendingGroups, index: number) {
    this.key = step.counters[0]?.key ?? "";
    this.isSliding = step.counters.some(({ kind }) => kind === "sliding");
    this.#step = step;
    this.#jitterSeconds = jitterSeconds;
    this.#call = call;
    this.#index = index;
  }

  /**
   * Returns the arguments of the command.
   * @param isKnown whether the server may know the script, which is longer than all the rest
   */
  args(isKnown: boolean): string[] {
    const { counters, hits, countsDenied } = this.#step;
    const args = isKnown ? ["EVALSHA", digestOfGroupScript()] : ["EVAL", groupScript];
    args.push(String(counters.length), ...counters.map(({ key }) => key));
    args.push(String(hits), countsDenied ? "1" : "0");
    for (const counter of counters) {
      const keep = secondsToKeep(counter) + this.#jitterSeconds;
      const at = counter.kind === "sliding" ? String(counter.subWindow + aheadBy(counter, this.aheadMs)) : "";
      args.push(String(counter.limit), String(keep), at);
    }
    return args;
  }

  /** Gives the call the states of the counters. Rejects it if the reply is not one of the script. */
  settle(reply: RedisReply): void {
    const counts = readCounts(String(reply));
    if (counts?.length !== this.#step.counters.length) {
      this.fail(new StoreError("redis: unexpected reply to a script"));
      return;
    }
    this.isSettled = true;
    this.#call.counts[this.#index] =
      this.aheadMs === 0 ? counts : counts.map((count, at) => this.#byOwnClock(count, at));
    this.#call.missing--;
    if (this.#call.missing === 0) this.#call.resolve(this.#call.counts);
  }

  #byOwnClock(count: GroupCount, at: number): GroupCount {
    const counter = this.#step.counters[at];
    if (counter?.kind !== "sliding" || count.freesWith === undefined) return count;
    return { ...count, freesWith: count.freesWith - aheadBy(counter, this.aheadMs) };
  }

  /** Rejects the call. */
  fail(error: Error): void {
    this.isSettled = true;
    this.#call.reject(error);
  }
}

/**
 * Returns the arguments of the command that sets or deletes a counter.
 *
 * @param aheadMs as `ServerClocks.aheadMs`.
 */
export function changeArgs(change: CounterChange, jitterSeconds: number, aheadMs: number): string[] {
  const { kind, key, count, subWindow, keepSeconds } = change;
  if (count === undefined) return ["DEL", key];
  const keep = String(keepSeconds + jitterSeconds);
  const at = String(subWindow + aheadBy(change, aheadMs));
  if (kind === "sliding") return ["EVAL", setWindowScript, "1", key, at, String(count), keep];
  return ["SET", key, String(count), "EX", keep];
}

/** Returns the sub-windows by which the clock of the server is ahead. */
function aheadBy({ windowSeconds }: { readonly windowSeconds: number }, aheadMs: number): number {
  return subWindowAt(aheadMs, windowSeconds * 1_000);
}

function secondsToKeep(counter: GroupCounter): number {
  if (counter.kind === "aligned") return counter.keepSeconds;
  return keepSecondsOf(counter.windowSeconds);
}

/** Returns `undefined` for a text that is not one of the script. */
function readCounts(reply: string): readonly GroupCount[] | undefined {
  if (!/^\d{1,16} (?:-|-?\d{1,16})(?: \d{1,16} (?:-|-?\d{1,16}))*$/.test(reply)) return undefined;
  const words = reply.split(" ");
  const counts: GroupCount[] = [];
  for (let i = 0; i + 1 < words.length; i += 2) {
    const before = Number(words[i]);
    counts.push(words[i + 1] === "-" ? { before } : { before, freesWith: Number(words[i + 1]) });
  }
  return counts;
}
