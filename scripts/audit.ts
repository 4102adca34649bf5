/**
 * Runs `npm audit` for the packages that run in production. The exit status is 1 if one has a high or critical
 * vulnerability. Mirrors of the registry often have no audits: the check is then skipped with a notice.
 */
import { spawnSync } from "node:child_process";
import { recordNotRun } from "./not-run.ts";

/** The used part of the output of `npm audit --json`. */
interface AuditReport {
  readonly vulnerabilities?: Readonly<Record<string, { readonly via: readonly (string | Advisory)[] }>>;
  readonly message?: string;
}

interface Advisory {
  readonly name: string;
  readonly severity: string;
  readonly title: string;
  readonly url: string;
  /** Versions that have the vulnerability. */
  readonly range: string;
}

export type Verdict =
  | { readonly kind: "audited"; readonly serious: readonly string[]; readonly others: readonly string[] }
  | { readonly kind: "unavailable"; readonly reason: string };

const seriousSeverities = ["high", "critical"];

/**
 * Interprets the output of `npm audit --json`, because npm's exit status does not distinguish findings from failures.
 */
export function verdictOf(output: string): Verdict {
  let report: AuditReport;
  try {
    // The output of npm has this form.
    report = JSON.parse(output) as AuditReport;
  } catch {
    return { kind: "unavailable", reason: output.trim() === "" ? "npm printed nothing" : output.trim().slice(0, 200) };
  }
  const { vulnerabilities, message = "npm gave no reason" } = report;
  if (vulnerabilities === undefined) return { kind: "unavailable", reason: message };
  // A name in place of an advisory is a dependency with a vulnerability.
  const advisories = Object.values(vulnerabilities).flatMap(({ via }) =>
    via.filter((each) => typeof each !== "string"),
  );
  const lines = (isSerious: boolean): readonly string[] =>
    advisories
      .filter(({ severity }) => seriousSeverities.includes(severity) === isSerious)
      .map(({ severity, name, range, title, url }) => `${severity}: ${name} ${range}: ${title}, ${url}`);
  return { kind: "audited", serious: lines(true), others: lines(false) };
}

if (import.meta.main) {
  const audit = spawnSync("npm", ["audit", "--omit=dev", "--json"], { encoding: "utf8" });
  const verdict = verdictOf(audit.stdout);
  if (verdict.kind === "unavailable") {
    recordNotRun("npm audit", verdict.reason);
  } else {
    for (const line of [...verdict.serious, ...verdict.others]) console.log(line);
    console.log(`npm audit: ${verdict.serious.length} high or critical, ${verdict.others.length} other findings`);
    if (verdict.serious.length > 0) process.exitCode = 1;
  }
}
