/** Renders results as a table, and writes it to a marked section of a page. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { CaseResult, Sample } from "./measure.ts";
import { spread } from "./statistics.ts";

/** A Markdown table, one row a case and peer; ratios are to `reference`, within the same round. */
export function renderTable(results: readonly CaseResult[], reference: string): string {
  const heads = [
    ...["case", "connections", "proxy", "CPU µs/request", "lowest–highest", "user + system", `× ${reference}`],
    ...["p50 ms", "p99 ms", "p99.9 ms", "requests/s", "RSS MiB"],
  ];
  const lines = [row(heads), row(heads.map((_, column) => (column === 0 || column === 2 ? "---" : "--:")))];
  for (const { benchCase, samples } of results) {
    const base = samples.get(reference);
    for (const [name, own] of samples) {
      const connections =
        benchCase.streams === 1 ? `${benchCase.connections}` : `${benchCase.connections} × ${benchCase.streams}`;
      lines.push(row([benchCase.title, connections, name, ...figures(own, name === reference ? undefined : base)]));
    }
  }
  return lines.join("\n");
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}

function figures(own: readonly Sample[], base: readonly Sample[] | undefined): readonly string[] {
  const cpu = spread(own.map(cpuOf));
  const ratio = base === undefined ? undefined : spread(ratios(own, base));
  const middle = (pick: (sample: Sample) => number): number => spread(own.map(pick)).median;
  return [
    cpu.median.toFixed(1),
    `${cpu.min.toFixed(1)}–${cpu.max.toFixed(1)}`,
    `${middle((sample) => sample.userUsPerRequest).toFixed(1)} + ${middle((sample) => sample.systemUsPerRequest).toFixed(1)}`,
    ratio === undefined ? "1" : `**${ratio.median.toFixed(2)}** (${ratio.min.toFixed(2)}–${ratio.max.toFixed(2)})`,
    middle((sample) => sample.p50Ms).toFixed(2),
    middle((sample) => sample.p99Ms).toFixed(2),
    middle((sample) => sample.p999Ms).toFixed(2),
    middle((sample) => sample.requestsPerSecond).toFixed(0),
    (spread(own.map((sample) => sample.residentBytes)).max / 1024 / 1024).toFixed(0),
  ];
}

function cpuOf(sample: Sample): number {
  return sample.userUsPerRequest + sample.systemUsPerRequest;
}

/** Pairs the samples of one round: other load on the machine then affected both. */
function ratios(own: readonly Sample[], base: readonly Sample[]): readonly number[] {
  return own.flatMap((sample, round) => {
    const other = base[round];
    return other === undefined ? [] : [cpuOf(sample) / cpuOf(other)];
  });
}

/**
 * Replaces the text between `<!-- NAME -->` and `<!-- /NAME -->` of a page, or appends the section to a page without
 * it, so that several benchmarks write their tables to one page.
 */
export function writeSection(page: string, name: string, text: string): void {
  const before = existsSync(page)
    ? readFileSync(page, "utf8")
    : "# Benchmarks\n\nEach section is written by the command that it names.\n";
  writeFileSync(page, replaceSection(before, name, text));
}

/** The page with its section `name` replaced or appended; nothing else changes. */
export function replaceSection(page: string, name: string, text: string): string {
  const opening = `<!-- ${name} -->`;
  const closing = `<!-- /${name} -->`;
  const section = `${opening}\n${text.trim()}\n${closing}`;
  const start = page.indexOf(opening);
  const end = page.indexOf(closing);
  if (start === -1 || end === -1) return `${page.trimEnd()}\n\n${section}\n`;
  return page.slice(0, start) + section + page.slice(end + closing.length);
}
