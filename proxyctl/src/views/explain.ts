/** Explains a denial for `proxyctl limits explain`. */
import { amountText } from "@gatewayproxy/admin-api/amounts";
import type { ConnectionDenial, Decision, GlobalDenial, LocalDenial } from "@gatewayproxy/admin-api/decisions";
import { notAppliedWords } from "@gatewayproxy/admin-api/describe-message";
import { withoutControls } from "../output/controls.ts";
import { describeWindow } from "./limit-words.ts";
import { describeKey } from "./live-limits.ts";

type Counter = LocalDenial["counter"];

/** Renders lines of `name: value`, then what would allow the next request. */
export function explainDecision(decision: Decision, from: string): string {
  const { at, rule, policy, target } = decision;
  const facts: readonly (readonly [string, string | undefined])[] = [
    ...(decision.kind === "connection" ? connectionFacts(decision) : requestFacts(decision)),
    ["denied", `${at} by ${from}`],
    ["rule", rule],
    ["policy", `${policy}${entryOf(decision)}`],
    ["target", target],
    ...(decision.kind === "global" ? globalFacts(decision) : counterFacts(decision.counter, nounOf(decision))),
  ];
  const width = Math.max(...facts.map(([name]) => name.length));
  const lines = facts.flatMap(([name, value]) => {
    return value === undefined ? [] : [`${name.padEnd(width)}   ${withoutControls(value)}`];
  });
  const remedies = decision.remedies.map((remedy) => `  - ${withoutControls(remedy)}`);
  return `${[...lines, "", `What would allow the next ${nounOf(decision)}:`, ...remedies].join("\n")}\n`;
}

/** The name of what a limit has denied. */
function nounOf(decision: Decision): "request" | "connection" | "session" {
  if (decision.kind !== "connection") return "request";
  return decision.protocol === "UDP" ? "session" : "connection";
}

function requestFacts({ method, authority, path, requestId }: Exclude<Decision, ConnectionDenial>) {
  return [
    ["request", `${method} ${authority}${path}`],
    ["request id", requestId],
  ] as const;
}

function connectionFacts(decision: ConnectionDenial) {
  const { protocol, source, serverName, listener } = decision;
  return [
    [nounOf(decision), `${protocol} from ${source}${serverName === undefined ? "" : ` to ${serverName}`}`],
    ["listener", listener],
  ] as const;
}

function entryOf(decision: Decision): string {
  return decision.kind === "global" ? "#global" : `#${decision.counter.name ?? decision.counter.entry}`;
}

function counterFacts(counter: Counter, noun = "request"): readonly (readonly [string, string | undefined])[] {
  const { counts, bucket, key, used, limit, windowStart, windowEnd, notApplied } = counter;
  return [
    [
      "counter",
      `${amountText(used, counts)} of ${amountText(limit, counts)} ${counts === "concurrent" ? "requests in progress" : counts === "connections" ? "open connections" : `${counts} used`}, before this ${noun}`,
    ],
    ["key", key === undefined ? undefined : describeKey(key)],
    [
      "window",
      counter.unit === undefined
        ? undefined
        : `${windowStart} to ${windowEnd} (${describeWindow(counter.unit, counter)})`,
    ],
    ["bucket", bucket],
    ...notApplied.map(({ policy, entry, name, when }) => {
      return ["not applied", `${policy}#${name ?? entry}, since its condition is false: ${when}`] as const;
    }),
  ];
}

function globalFacts({ by, service, domain, descriptors, notApplied, counter }: GlobalDenial) {
  return [
    ["decided by", decidedByText[by]],
    ["service", `${service}, domain ${domain}`],
    ...descriptors.map((descriptor) => ["descriptor", describeDescriptor(descriptor)] as const),
    ...notApplied.map((descriptor) => ["not applied", notAppliedWords(descriptor)] as const),
    ...(counter === undefined ? [] : counterFacts(counter)),
  ] as const;
}

const decidedByText: Readonly<Record<GlobalDenial["by"], string>> = {
  service: "the rate limit service",
  cache: "an earlier response of the service that is still valid",
  fallback: "the policy's fallback, while the service is unavailable",
  learned: "the limit that the service reported last, while it is unavailable",
  failureMode: "failureMode Closed, since the service failed",
};

function describeDescriptor(descriptor: GlobalDenial["descriptors"][number]): string {
  const { entries, override, code, limit, windowSeconds, remaining, resetSeconds, estimate } = descriptor;
  const values = entries.map(({ key, value }) => `${key}=${value.text}`).join(", ");
  const asked = override === undefined ? "" : ` (limitOverride ${override.requestsPerUnit} per ${override.unit})`;
  const names = `${values}${asked}`;
  const window = limit === undefined ? "" : `, ${limit} a window of ${windowSeconds ?? "?"} s`;
  const remainingText = remaining === undefined ? "" : `, ${remaining} left, reset in ${resetSeconds ?? "?"} s`;
  const held = estimate === undefined ? "" : `, estimated ${estimate} tokens`;
  return `${names}${code === undefined ? "" : ` ${code}`}${window}${remainingText}${held}`;
}
