/**
 * Runs `proxyctl limits test`: replays a log, or a synthetic load, through the limits of manifests, on its own clock.
 */
import { readFile } from "node:fs/promises";
import { text as readAll } from "node:stream/consumers";
import { LimitReplay, type LoggedIdentity } from "@gatewayproxy/proxy/limit-replay";
import type { GlobalLimit } from "@gatewayproxy/proxy/global-limit";
import { renderProblem } from "@gatewayproxy/runtime/problem";
import { CommandError, exitCodes, textOf } from "../command-error.ts";
import type { PlainFormat } from "../options/output-option.ts";
import type { Io } from "../io.ts";
import { withoutControls } from "../output/controls.ts";
import { renderData } from "../output/format.ts";
import { renderTable } from "../output/table.ts";
import { parseAccessLog } from "../replay/access-log.ts";
import { claimsIn, identityOf, missingAttributes } from "../replay/identity.ts";
import { replayServices } from "../replay/replay-services.ts";
import { type ReplayedLimit, type ReplayedRequest, type ReplayOutcome, replayRequests } from "../replay/replay.ts";
import { syntheticRequests } from "../replay/synthetic.ts";
import { describeReplay, replayColumns, replayData } from "../views/replay.ts";
import { readManifests } from "./manifest-files.ts";
import { readServiceFiles } from "./service-files.ts";

/** Options of `proxyctl limits test`. */
export interface TestOptions {
  /** `-f`: manifest files and folders, `-` for standard input; at least one. */
  readonly file: readonly string[];
  /** `--ratelimit-config`: configurations of a rate limit service; empty: global limits are left out. */
  readonly ratelimitConfig: readonly string[];
  /** `--log`: an access log to replay, `-` for standard input; not together with `rate`. */
  readonly log?: string;
  /** `--rate`: synthetic requests per second, above 0 and at most 100,000. */
  readonly rate?: number;
  /** `--duration` in milliseconds, at most 7 days; 60,000 by default. */
  readonly duration: number;
  /** `--tokens`: the tokens of each synthetic request, a whole number. */
  readonly tokens?: number;
  /** `--cost`: what each synthetic response costs, in micro-units. */
  readonly cost?: number;
  /** `--url` of each synthetic request; `http://localhost/` by default. */
  readonly url: URL;
  /** `--method` of each synthetic request; `POST` by default. */
  readonly method: string;
  /** `--header` of each synthetic request, as `name: value`. */
  readonly header: readonly string[];
  /** `--identity` of each synthetic request, as in the access log. */
  readonly identity?: string;
  /** `--claims` of the token of each synthetic request, as a JSON object. */
  readonly claims?: string;
  /** `-o`: the format of the result. */
  readonly output: PlainFormat;
  /** `--fail-on-deny`: exit with `exitCodes.no` if a request would have been denied. */
  readonly failOnDeny?: true;
}

/** Replays requests through the limits and prints the result. */
export async function testLimits(options: TestOptions, io: Io): Promise<void> {
  const requests = await requestsOf(options, io);
  const services = replayServices(await readServiceFiles(options.ratelimitConfig, io));
  const replay = LimitReplay.open((await readManifests(options.file, io)).files, requests, services);
  if (!replay.ok) {
    throw new CommandError({
      message: `read the manifests: ${replay.problems.map(renderProblem).join("\n  ")}`,
      advice: ["see all problems: proxyctl validate -f PATH"],
    });
  }
  for (const problem of replay.value.problems) io.stderr.write(`note: ${withoutControls(renderProblem(problem))}\n`);
  for (const limit of replay.value.globalLimitsLeftOut) io.stderr.write(`note: ${leftOutReason(limit)}\n`);
  const outcome = replayRequests(replay.value, requests);
  for (const note of notesOn(outcome, requests, replay.value)) io.stderr.write(`note: ${note}\n`);
  if (options.output === "table") {
    io.stdout.write(`${renderTable(replayColumns(outcome), outcome.entries)}\n${describeReplay(outcome)}\n`);
  } else {
    io.stdout.write(renderData(options.output, replayData(outcome)));
  }
  if (options.failOnDeny === true && outcome.denied > 0) io.setExitCode(exitCodes.no);
}

async function requestsOf(options: TestOptions, io: Io): Promise<readonly ReplayedRequest[]> {
  const { log, rate, url, method, header, tokens, cost, claims } = options;
  if (rate !== undefined) {
    const rawHeaders = header.flatMap(parseHeader);
    const identity = syntheticIdentity(options.identity, claims);
    return syntheticRequests({
      perSecond: rate,
      durationMs: options.duration,
      tokens,
      cost,
      url,
      method,
      rawHeaders,
      identity,
    });
  }
  if (log === undefined) {
    throw new CommandError({
      message: "there are no requests to test with",
      advice: ["name an access log with --log FILE, or make a synthetic load with --rate 20/s"],
      exitCode: exitCodes.usage,
    });
  }
  const { requests, skipped, unauthenticated } = parseAccessLog(await readLog(log, io));
  if (skipped > 0) io.stderr.write(`note: ${skipped} lines of ${log} are not requests and were skipped\n`);
  if (unauthenticated > 0) {
    io.stderr.write(
      `note: ${unauthenticated} requests had no valid credential, so no limit counted them; they were skipped\n`,
    );
  }
  return requests;
}

async function readLog(log: string, io: Io): Promise<string> {
  if (log === "-") return await readAll(io.stdin);
  try {
    return await readFile(log, "utf8");
  } catch (error) {
    throw new CommandError({
      message: `read the log ${log}: ${textOf(error)}`,
      advice: ["the proxy writes it on standard output, one JSON object per line"],
      cause: error,
    });
  }
}

/** Returns the notes that qualify the figures. */
function notesOn(outcome: ReplayOutcome, requests: readonly ReplayedRequest[], replay: LimitReplay): readonly string[] {
  const expressions = outcome.entries.flatMap(({ entry }) => expressionsOf(entry));
  const needsHeaders = expressions.some((source) => source.includes("request.headers"));
  const missing = missingAttributes(replay, requests, expressions);
  const hasHeaders = requests.some(({ view }) =>
    view.rawHeaders.some((name, at) => at % 2 === 0 && name !== "user-agent" && name !== "host"),
  );
  return [
    outcome.estimated > 0
      ? `${outcome.estimated} requests were denied when they were logged; their usage is the average of the others`
      : undefined,
    needsHeaders && !hasHeaders
      ? "an expression reads request.headers, which these requests do not have: it has no value for them"
      : undefined,
    missing.length > 0
      ? `expressions read ${missing.join(", ")}, which these requests do not have: they have no value for them`
      : undefined,
    outcome.entries.length === 0 ? "no limit applies to any rule" : undefined,
  ].filter((note) => note !== undefined);
}

function expressionsOf({ kind, limit }: ReplayedLimit): readonly string[] {
  const sources =
    kind === "local"
      ? [limit.key, limit.when, limit.amountFrom, limit.cost]
      : limit.descriptors.flatMap(({ entries, when, cost, limitOverride }) => [
          ...entries.map(({ expression }) => expression),
          ...[when, cost, limitOverride?.requestsPerUnitFrom],
        ]);
  return sources.filter((source) => source !== undefined);
}

function leftOutReason({ policy, domain, hitsMode }: GlobalLimit): string {
  const prefix = `the global limit of ${policy} is left out`;
  if (hitsMode === "Kuadrant") return `${prefix}: with hitsMode Kuadrant its limits are Limitador's`;
  return `${prefix}: name the limits of domain ${JSON.stringify(domain)} with --ratelimit-config`;
}

function syntheticIdentity(text: string | undefined, claims: string | undefined): LoggedIdentity | undefined {
  const identity = identityOf(text, { jwt: claims === undefined ? undefined : parseClaims(claims) });
  if (text === undefined || identityOf(text, {}) !== undefined) return identity;
  throw new CommandError({
    message: `the identity ${JSON.stringify(text)} is neither jwt SUBJECT nor apiKey NAMESPACE/SECRET`,
    advice: ["write it as in the access log: --identity 'jwt ada', or --identity 'apiKey default/acme'"],
    exitCode: exitCodes.usage,
  });
}

function parseClaims(text: string): Readonly<Record<string, unknown>> {
  const claims = claimsIn(text);
  if (claims !== undefined) return claims;
  throw new CommandError({
    message: `the claims ${JSON.stringify(text)} are no JSON object`,
    advice: [`write them as in a token: --claims '{"tier": "gold"}'`],
    exitCode: exitCodes.usage,
  });
}

function parseHeader(text: string): readonly [string, string] {
  const [, name, value] = /^([^:\s]+):\s*(.*)$/.exec(text) ?? [];
  if (name !== undefined && value !== undefined) return [name, value];
  throw new CommandError({
    message: `the header ${JSON.stringify(text)} is not of the form NAME: VALUE`,
    advice: ["write it as for curl: -H 'x-user: ada'"],
    exitCode: exitCodes.usage,
  });
}
