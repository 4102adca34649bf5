/** Renders results as tables, and the text around them. */
import { describeCommit, describeMachine } from "../machine.ts";
import { spread } from "../statistics.ts";
import type { ServiceResult, ServiceSample, SoakResult } from "./measure.ts";
import { loadedCallsPerSecond, type StartSample } from "./start.ts";
import { serviceVersions } from "./services.ts";

/** A Markdown table, one row a case and service; ratios are to the reference, within the same round. */
export function renderTable(results: readonly ServiceResult[]): string {
  const heads = [
    ...["case", "connections", "service", "CPU µs/call", "lowest–highest", "user + system", "× reference"],
    ...["Redis µs/call", "p50 ms", "p99 ms", "calls/s", "RSS MiB"],
  ];
  const lines = [row(heads), row(heads.map((_, column) => (column === 0 || column === 2 ? "---" : "--:")))];
  for (const { serviceCase, samples } of results) {
    const base = samples.get("reference");
    for (const [name, own] of samples) {
      const { title, connections, streams } = serviceCase;
      const isBase = name === "reference";
      lines.push(row([title, `${connections} × ${streams}`, name, ...figures(own, isBase ? undefined : base)]));
    }
  }
  return lines.join("\n");
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}

function figures(own: readonly ServiceSample[], base: readonly ServiceSample[] | undefined): readonly string[] {
  const cpu = spread(own.map(cpuOf));
  const ratio = base === undefined ? undefined : spread(ratios(own, base));
  const middle = (pick: (sample: ServiceSample) => number): number => spread(own.map(pick)).median;
  return [
    cpu.median.toFixed(1),
    `${cpu.min.toFixed(1)}–${cpu.max.toFixed(1)}`,
    `${middle((sample) => sample.userUsPerCall).toFixed(1)} + ${middle((sample) => sample.systemUsPerCall).toFixed(1)}`,
    ratio === undefined ? "1" : `**${ratio.median.toFixed(2)}** (${ratio.min.toFixed(2)}–${ratio.max.toFixed(2)})`,
    middle((sample) => sample.redisUsPerCall).toFixed(1),
    middle((sample) => sample.p50Ms).toFixed(2),
    middle((sample) => sample.p99Ms).toFixed(2),
    middle((sample) => sample.callsPerSecond).toFixed(0),
    mebibytes(spread(own.map((sample) => sample.residentBytes)).max),
  ];
}

function cpuOf(sample: ServiceSample): number {
  return sample.userUsPerCall + sample.systemUsPerCall;
}

/** Pairs the samples of one round: other load on the machine then affected both. */
function ratios(own: readonly ServiceSample[], base: readonly ServiceSample[]): readonly number[] {
  return own.flatMap((sample, round) => {
    const other = base[round];
    return other === undefined ? [] : [cpuOf(sample) / cpuOf(other)];
  });
}

function mebibytes(bytes: number): string {
  return (bytes / 1_048_576).toFixed(0);
}

/** Memory at the quarters of the run. */
export function renderSoak({ minutes, calls, residentBytes }: SoakResult): string {
  const quarters = [0.25, 0.5, 0.75, 1].map((part) => residentBytes[Math.ceil(residentBytes.length * part) - 1] ?? 0);
  const heads = ["minutes", "calls", "RSS MiB after a quarter", "half", "three quarters", "all", "highest"];
  const cells = [String(minutes), String(calls), ...quarters.map(mebibytes), mebibytes(Math.max(...residentBytes))];
  return `
## Memory under load

Written by \`npm run bench:ratelimit-service -- --soak ${minutes}\` on ${today()}, commit ${describeCommit()}: ours alone, Redis, 8
connections with 16 calls at a time, 8 counters.

${row(heads)}
${row(heads.map(() => "--:"))}
${row(cells)}
`.trim();
}

/** A row for each program; ratios are to Node alone, within the same round. */
export function renderStarts(samples: ReadonlyMap<string, readonly StartSample[]>): string {
  const heads = [
    ...["program", "ms to healthy", "CPU ms to healthy", "× Node alone", "RSS MiB idle", "of it files"],
    ...["RSS MiB under load", "of it files", "calls/s"],
  ];
  const lines = [row(heads), row(heads.map((_, column) => (column === 0 ? "---" : "--:")))];
  const [alone = []] = samples.values();
  for (const [name, own] of samples) {
    const middle = (pick: (sample: StartSample) => number): number => spread(own.map(pick)).median;
    const times = own.map(({ cpuMsToHealthy }, round) => cpuMsToHealthy / (alone[round]?.cpuMsToHealthy ?? NaN));
    const isLoaded = own.every(({ loaded }) => loaded !== undefined);
    const loaded = (pick: (sample: NonNullable<StartSample["loaded"]>) => number): number =>
      middle((sample) => (sample.loaded === undefined ? NaN : pick(sample.loaded)));
    lines.push(
      row([
        name,
        middle(({ msToHealthy }) => msToHealthy).toFixed(0),
        middle(({ cpuMsToHealthy }) => cpuMsToHealthy).toFixed(0),
        spread(times).median.toFixed(1),
        mebibytes(middle(({ idle }) => idle.residentBytes)),
        mebibytes(middle(({ idle }) => idle.fileBytes)),
        isLoaded ? mebibytes(loaded(({ residentBytes }) => residentBytes)) : "",
        isLoaded ? mebibytes(loaded(({ fileBytes }) => fileBytes)) : "",
        isLoaded ? loaded(({ callsPerSecond }) => callsPerSecond).toFixed(0) : "",
      ]),
    );
  }
  const repeats = alone.length;
  return `
## Memory and start

Written by \`npm run bench:ratelimit-service -- --starts ${repeats}\` on ${today()}, commit ${describeCommit()}.

- Machine: ${describeMachine()}. Versions: ${serviceVersions().join("; ")}.
- Setting: as above, one thread and Redis. The bundle is the program of the image (\`npm run bundle\`), with the image's
  environment. Medians of ${repeats} starts of each program, in turns.
- Start: from the start of the process to the first healthy response of \`/healthcheck\`, and its CPU time until then.
  **× Node alone** is the ratio of CPU times within one round.
- Memory: resident four seconds after the start, and at the end of 30 s of ${loadedCallsPerSecond.toLocaleString("en")} calls a second, 8 × 16 (the
  reference decides fewer). Files are pages of the program itself and of its libraries, which processes on one machine share.

${lines.join("\n")}
`.trim();
}

/** The text above the table of a full run, with today's date. */
export function describeRun({ repeats, seconds }: { readonly repeats: number; readonly seconds: number }): string {
  return `
## The rate limit service and envoyproxy/ratelimit

Written by \`npm run bench:ratelimit-service\` on ${today()}, commit ${describeCommit()}.

- Machine: ${describeMachine()}. Load generator, Redis and service share it.
- Versions: ${serviceVersions().join("; ")}.
- Setting: both services on one Redis, with the same file of limits and LOCAL_CACHE_SIZE_IN_BYTES=1000000. The reference
  runs without statistics (DISABLE_STATS=true), which costs it least; ours with statistics, and with the response headers
  that it sends by default. Ours has one thread, the reference as many as Go starts.
- Calls: one descriptor of one entry, by h2load over HTTP/2 without TLS. Every response is 200, and before a case the content of
  one is checked. In a case with one counter, all calls have the same descriptor, and ours sends the calls of one turn of
  its event loop to Redis as one command. With 8 counters, each has its own connections.
- Method: per case a warm-up, then ${repeats} rounds of ${seconds} s in which the services take turns.
- **CPU µs/call** is user and system time of the service's whole process, divided by the completed calls: median
  (lowest–highest of the rounds). Compare this figure: it hardly depends on other load of the machine, while calls/s and
  latencies mostly show how busy the machine was.
- **× reference** pairs the two samples of one round and takes the median of the pairs; below 1 is cheaper.

`.trimStart();
}

function today(): string {
  return new Date().toISOString().slice(0, 10);
}
