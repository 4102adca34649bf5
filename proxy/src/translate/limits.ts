/**
 * Local limit entries in the form the data path enforces. The heart of it is a counter's identity: what keeps a budget
 * through edits elsewhere, and what two places share.
 */
import { hash } from "node:crypto";
import type { ProxyPolicy } from "../api/proxy-policy.ts";
import type { LocalLimit } from "../ir/limit.ts";
import { nameKey } from "./object-names.ts";

/**
 * The entries of a policy at one of its targets, in the policy's order.
 *
 * The counter is named by policy, target and what is counted; so a policy that names two routes counts each by itself,
 * one on a Gateway counts all its routes together, and neither the order of the entries nor their mode resets a count.
 * Entries that are the same to the letter are told apart by their number.
 *
 * @param target `HTTPRoute/namespace/name` or `Gateway/namespace/name`, with `#section` where one is named.
 */
export function localLimits(policy: ProxyPolicy, target: string): readonly LocalLimit[] {
  const name = nameKey(policy);
  const place = counterPlace(name, target);
  const timesSeen = new Map<string, number>();
  const { local, refundOn, usageChunk } = policy.spec.traffic.rateLimit;
  return local.map((localEntry, entry): LocalLimit => {
    const { requests, tokens, burst = 0, unit, key, mode } = localEntry;
    const counts = tokens === undefined ? "requests" : "tokens";
    // The parser let exactly one of them through.
    const amount = requests ?? tokens ?? 1;
    const identity = `${place} ${countedBy({ counts, amount, unit, burst, key })}`;
    const times = (timesSeen.get(identity) ?? 0) + 1;
    timesSeen.set(identity, times);
    const counter = times === 1 ? identity : `${identity} #${times}`;
    return {
      counter,
      policy: name,
      entry,
      target,
      counts,
      amount,
      burst,
      unit,
      ...(key === undefined ? {} : { key }),
      mode,
      ...(refundOn === undefined ? {} : { refundOn }),
      ...(usageChunk === undefined ? {} : { usageChunk }),
    };
  });
}

/**
 * A policy and target with more characters together, or a key with more, are named by their digest: a policy may have 16 keys
 * of 1,024 characters at 16 targets, each limit in every worker.
 */
const [longestPlace, longestKey] = [128, 64];

/** Returns the part of a counter's identity that says where it is counted: `default/chat HTTPRoute/default/chat`. */
export function counterPlace(policy: string, target: string): string {
  return shortened(`${policy} ${target}`, longestPlace);
}

/** Returns the part of a counter's identity that says what is counted: `requests 10/Minutes+5 by source.address`. */
export function countedBy(
  entry: Pick<LocalLimit, "counts" | "amount" | "unit" | "burst"> & { key?: string | undefined },
): string {
  const { counts, amount, unit, burst, key } = entry;
  const capacity = `${counts} ${amount}/${unit}${burst === 0 ? "" : `+${burst}`}`;
  return key === undefined ? capacity : `${capacity} by ${shortened(key, longestKey)}`;
}

function shortened(text: string, longest: number): string {
  return text.length > longest ? `sha256:${hash("sha256", text)}` : text;
}
