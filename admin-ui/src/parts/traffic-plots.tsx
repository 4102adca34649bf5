/** Four plots of the last minutes: requests by status, request durations, denials by limits, tokens. */
import type { Traffic } from "@gatewayproxy/admin-api/traffic";
import { counted, formatCount, formatMs, formatRate, formatSeconds } from "../format.ts";
import {
  deniedOf,
  growth,
  percentileMs,
  requestsOf,
  type Span,
  spanBefore,
  type StatusClass,
  statusClasses,
  type TrafficHistory,
} from "../traffic-history.ts";
import { Plot, type Series, type Tone } from "./plot.tsx";

/** The time over which rates are averaged: long enough to be steady, short enough to be current. */
const rateSeconds = 10;
const minuteSeconds = 60;

/** The plots of the overview. */
export function TrafficPlots({ history }: { history: TrafficHistory }) {
  return (
    <section aria-label="Live traffic" class="plots">
      <Requests history={history} />
      <Durations history={history} />
      <Denials history={history} />
      <Tokens history={history} />
    </section>
  );
}

const statusTones: Readonly<Record<StatusClass, Tone>> = {
  ...{ "2xx": "good", "3xx": "accent", "4xx": "warn", "5xx": "bad", "1xx": "quiet", none: "quiet" },
};

function Requests({ history }: { history: TrafficHistory }) {
  const perSecond = (read: (traffic: Traffic) => number) => (span: Span) => growth(span, read) / span.seconds;
  const minute = spanBefore(history, minuteSeconds);
  const newest = history.at(-1);
  // Classes without requests are left out.
  const classes = statusClasses.filter((each) => newest !== undefined && requestsOf(each)(newest) > 0);
  return (
    <Plot
      title="Requests"
      headline={`${formatLatest(
        history,
        rateSeconds,
        perSecond((traffic) => traffic.requests),
        formatRate,
      )} a second`}
      note={describeMinute(minute, (span) =>
        counted(
          growth(span, ({ requests }) => requests),
          "request",
        ),
      )}
      times={timesOf(history)}
      form="areas"
      formatValue={(value) => `${formatRate(value)} per second`}
      series={classes.map((name) => ({
        name: name === "none" ? "no response" : name,
        tone: statusTones[name],
        values: valuesOf(history, rateSeconds, perSecond(requestsOf(name))),
        now: minute === undefined ? "–" : formatCount(growth(minute, requestsOf(name))),
      }))}
    />
  );
}

function Durations({ history }: { history: TrafficHistory }) {
  const minute = spanBefore(history, minuteSeconds);
  const median = minute && percentileMs(minute, 0.5);
  const format = (ms: number | undefined): string => (ms === undefined ? "–" : formatMs(ms));
  const series = (name: string, share: number, tone: Tone): Series => ({
    ...{ name, tone },
    values: valuesOf(history, rateSeconds, (span) => percentileMs(span, share)),
    now: format(minute && percentileMs(minute, share)),
  });
  return (
    <Plot
      title="Request duration"
      headline={median === undefined ? "–" : `${formatMs(median)} median`}
      note={describeMinute(
        minute,
        (span) =>
          `p50 of ${counted(
            growth(span, ({ requests }) => requests),
            "request",
          )}`,
      )}
      times={timesOf(history)}
      form="lines"
      formatValue={formatMs}
      series={[series("p50", 0.5, "accent"), series("p99", 0.99, "warn")]}
    />
  );
}

function Denials({ history }: { history: TrafficHistory }) {
  const denied = (span: Span): number => growth(span, deniedOf);
  const minute = spanBefore(history, minuteSeconds);
  return (
    <Plot
      title="Denied by limits"
      headline={`${formatLatest(history, minuteSeconds, denied, formatCount)} per minute`}
      note={describeMinute(minute, (span) => `${counted(denied(span), "request")} denied with 429`)}
      times={timesOf(history)}
      form="areas"
      formatValue={(value) => `${formatCount(value)} per minute`}
      series={[
        {
          ...{ name: "denied", tone: "bad" },
          values: valuesOf(history, minuteSeconds, denied),
          now: minute === undefined ? "–" : formatCount(denied(minute)),
        },
      ]}
    />
  );
}

function Tokens({ history }: { history: TrafficHistory }) {
  const minute = spanBefore(history, minuteSeconds);
  const all = ({ tokens: { input, output, other } }: Traffic): number => input + output + other;
  const series = (name: "input" | "output" | "other", tone: Tone): Series => ({
    ...{ name, tone },
    values: valuesOf(history, minuteSeconds, (span) => growth(span, ({ tokens }) => tokens[name])),
    now: minute === undefined ? "–" : formatCount(growth(minute, ({ tokens }) => tokens[name])),
  });
  const hasOther = (history.at(-1)?.tokens.other ?? 0) > 0;
  return (
    <Plot
      title="LLM tokens"
      headline={`${formatLatest(history, minuteSeconds, (span) => growth(span, all), formatCount)} per minute`}
      note={describeMinute(minute, (span) => counted(growth(span, all), "token"))}
      times={timesOf(history)}
      form="areas"
      formatValue={(value) => `${formatCount(value)} per minute`}
      series={[series("input", "accent"), series("output", "good"), ...(hasOther ? [series("other", "quiet")] : [])]}
    />
  );
}

function timesOf(history: TrafficHistory): readonly number[] {
  return history.map(({ uptimeSeconds }) => uptimeSeconds);
}

/** Returns a value for each response, over the `seconds` before it. */
function valuesOf<Value>(
  history: TrafficHistory,
  seconds: number,
  read: (span: Span) => Value,
): readonly (Value | undefined)[] {
  return history.map((_, at) => {
    const span = spanBefore(history, seconds, at);
    return span && read(span);
  });
}

function formatLatest(
  history: TrafficHistory,
  seconds: number,
  read: (span: Span) => number,
  format: (value: number) => string,
): string {
  const span = spanBefore(history, seconds);
  return span === undefined ? "–" : format(read(span));
}

/** Describes `12 requests in the last minute`; with less than a minute of data, `in the last 14s`. */
function describeMinute(span: Span | undefined, describe: (span: Span) => string): string {
  if (span === undefined) return "waiting for the second response of the proxy";
  const isWhole = span.seconds > minuteSeconds - 5;
  return `${describe(span)} in the last ${isWhole ? "minute" : formatSeconds(span.seconds)}`;
}
