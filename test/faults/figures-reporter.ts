/**
 * Prints the results of all faults as one table at the end of a run, and writes it to docs/reliability.md on request. A
 * fault that was not measured is listed with its reason, and in the list of NOT_RUN (`scripts/not-run.ts`).
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Reporter, TestCase, TestModule } from "vitest/node";
import { recordNotRun } from "../../scripts/not-run.ts";
import { describeCommit, describeMachine } from "../bench/machine.ts";
import { replaceSection } from "../bench/report.ts";
import { installCommand } from "../support/programs.ts";
import { missingProgramsOf } from "../support/missing-programs-reporter.ts";
import type { Figures } from "./support/fault.ts";
import { rate } from "./support/rate.ts";

const page = join(import.meta.dirname, "../../docs/reliability.md");
const heads = ["fault", "requests", "responses", "p99 ms", "slowest ms", "recovery", "counters"];

export class FiguresReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    for (const test of tests) {
      if (test.result().state === "skipped") recordNotRun(`fault "${test.name}"`, reasonOf(test));
    }
    const rows = tests.flatMap((test) => {
      const { figures } = test.meta();
      return figures === undefined ? [] : [row(test.name, figures)];
    });
    if (rows.length === 0) return;
    const table = [line(heads), line(heads.map((_, column) => (column === 0 ? "---" : "--:"))), ...rows].join("\n");
    process.stdout.write(`\n${table}\n`);
    if (process.env["FAULTS_WRITE"] !== "true") return;
    if (tests.some((test) => test.meta().figures === undefined)) {
      process.stderr.write("\n!! docs/reliability.md is not changed: not every fault was measured\n");
      return;
    }
    const measured = `Measured with ${rate} requests a second at ${describeCommit()} on ${describeMachine()}.`;
    writeFileSync(page, replaceSection(readFileSync(page, "utf8"), "faults", `${table}\n\n${measured}`));
  }
}

function reasonOf(test: TestCase): string {
  const programs = missingProgramsOf(test);
  if (programs.length > 0) return `${programs.join(", ")} is missing: run ${installCommand}`;
  const result = test.result();
  return (result.state === "skipped" ? result.note : undefined) ?? "it is not part of this run";
}

function row(name: string, { requests, responses, p99Ms, slowestMs, recoveredMs, counters }: Figures): string {
  const kinds = responses.map(([kind, count]) => `${count.toLocaleString("en")} × ${kind}`).join("<br>");
  const again = recoveredMs === 0 ? "–" : `${(recoveredMs / 1_000).toFixed(1)} s`;
  return line([name, requests.toLocaleString("en"), kinds, p99Ms.toFixed(0), slowestMs.toFixed(0), again, counters]);
}

function line(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}
