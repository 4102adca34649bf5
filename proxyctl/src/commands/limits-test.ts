/** `proxyctl limits test`: replays a log, or a synthetic load, through the limits of manifests. */
import { microUnitsOf } from "@gatewayproxy/runtime/money";
import { duration } from "@gatewayproxy/runtime/setting-kinds";
import { type Command, InvalidArgumentError, Option } from "commander";
import type { TestOptions } from "../actions/limits-test.ts";
import { exitCodes } from "../command-error.ts";
import type { Io } from "../io.ts";
import { actions } from "./actions.ts";
import { withExamples } from "./examples.ts";
import { plainOutput } from "../options/output-option.ts";

const durationKind = duration(1, 7 * 24 * 3_600_000);

/** Adds `test`. */
export function addLimitsTestCommand(limits: Command, io: Io): void {
  withExamples(
    limits
      .command("test")
      .description("Show what the limits of manifests would have allowed and denied, with the limiter of the proxy"),
    "proxyctl limits test -f limits.yaml --log access.jsonl",
    "proxyctl limits test -f limits.yaml --rate 20/m --duration 10m -H 'x-user: ada' --fail-on-deny",
  )
    .requiredOption("-f, --file <path>", "manifests: a file, a folder, or - (may be repeated)", collect, [])
    .option(
      "--ratelimit-config <path>",
      "limits of the rate limit service: a file or a folder (may be repeated)",
      collect,
      [],
    )
    .addOption(new Option("--log <file>", "access log to replay, - for standard input").conflicts("rate"))
    .option("--rate <rate>", "rate of synthetic requests instead of a log: 20/s, 100/m or 5/h", parseRate)
    .addOption(
      new Option("--duration <time>", "duration of the synthetic load").argParser(parseDuration).default(60_000, "60s"),
    )
    .option("--tokens <n>", "tokens of each synthetic request", parseTokens)
    .option("--cost <amount>", "cost of the response to each synthetic request, such as 0.002", parseCost)
    .addOption(
      new Option("--url <url>", "URL of each synthetic request")
        .argParser(parseUrl)
        .default(new URL("http://localhost/"), "http://localhost/"),
    )
    .option("-X, --method <method>", "method of each synthetic request", "POST")
    .option("-H, --header <field>", "header of each synthetic request (may be repeated)", collect, [])
    .option("--identity <identity>", "client of each synthetic request: 'jwt SUBJECT' or 'apiKey NAMESPACE/SECRET'")
    .option("--claims <json>", "claims of the token of each synthetic request")
    .addOption(plainOutput())
    .option("--fail-on-deny", `exit with ${exitCodes.no} if any request would have been denied`)
    .action(async (options: TestOptions) => {
      await (await actions.limitsTest()).testLimits(options, io);
    });
}

function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}

const perSecond: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 };

function parseRate(text: string): number {
  const [, amount, unit = ""] = /^(\d+(?:\.\d+)?)\/([smh])$/.exec(text) ?? [];
  const rate = Number(amount) / (perSecond[unit] ?? Number.NaN);
  if (rate > 0 && rate <= 100_000) return rate;
  throw new InvalidArgumentError("It must be a number per s, m or h, such as 20/s, at most 100000/s.");
}

function parseDuration(text: string): number {
  const ms = durationKind.parse(text);
  if (ms !== undefined) return ms;
  throw new InvalidArgumentError("It must be a duration such as 500ms, 10s, 5m or 1h, at most 7 days.");
}

function parseTokens(text: string): number {
  const tokens = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(tokens)) return tokens;
  throw new InvalidArgumentError("It must be a whole number.");
}

function parseCost(text: string): number {
  if (/^\d{1,9}(\.\d{1,6})?$/.test(text)) return microUnitsOf(text);
  throw new InvalidArgumentError("It must be a decimal number with at most 6 digits after the point.");
}

function parseUrl(text: string): URL {
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return new URL(text);
  throw new InvalidArgumentError("It must be an http or https URL.");
}
