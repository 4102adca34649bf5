/**
 * The control plane at scale: `npm run bench:scale`, with the cases of gateway-api-bench. The controller and a proxy
 * with one worker, as in their image, serve a real API server of the test rig (`test/rig/build.sh control-plane`). Pods
 * are left out: endpoints are written by the benchmark. The run takes some minutes, and writes its tables to
 * docs/benchmarks.md unless an option is given.
 *
 * `npm run bench:scale -- --files` instead measures a proxy that serves a folder of many routes. It needs no test rig,
 * and writes its own section unless another option is given.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { bundleAll } from "../../../scripts/bundle.ts";
import { bundlesVariable } from "../../support/program-file.ts";
import { describeCommit, describeMachine } from "../machine.ts";
import { writeSection } from "../report.ts";
import {
  attachedRoutesCase,
  listenerSetsCase,
  routeChangesCase,
  routeProbeCase,
  routeScaleCase,
  type Row,
  type ScaleOptions,
} from "./cases.ts";
import { describeFiles, measureLayouts } from "./files.ts";
import { type CaseName, caseNames, published } from "./published.ts";

const { values } = parseArgs({
  options: {
    cases: { type: "string", default: caseNames.join(",") },
    attached: { type: "string", default: "1000" },
    probes: { type: "string", default: "600" },
    changes: { type: "string", default: "60" },
    namespaces: { type: "string", default: "50" },
    "listener-sets": { type: "string", default: "200" },
    profiles: { type: "string" },
    files: { type: "boolean", default: false },
    "file-routes": { type: "string", default: "10000" },
    rounds: { type: "string", default: "3" },
  },
});
const options: ScaleOptions = {
  attached: Number(values.attached),
  probes: Number(values.probes),
  changes: Number(values.changes),
  namespaces: Number(values.namespaces),
  listenerSets: Number(values["listener-sets"]),
  profiles: values.profiles,
};

interface ScaleCase {
  readonly title: string;
  readonly run: (options: ScaleOptions) => Promise<readonly Row[]>;
}

const count = (number: number): string => number.toLocaleString("en");
const cases: Readonly<Record<CaseName, ScaleCase>> = {
  attached: { title: `${count(options.attached)} attached routes`, run: attachedRoutesCase },
  probe: { title: `Probe of ${count(options.probes)} new routes`, run: routeProbeCase },
  changes: { title: `${count(options.changes)} edits of a route under traffic`, run: routeChangesCase },
  scale: { title: `${count(options.namespaces * 100)} routes with Services`, run: routeScaleCase },
  "listener-sets": {
    title: `${count(options.listenerSets)} ListenerSets with ${count(options.listenerSets * 16)} routes`,
    run: listenerSetsCase,
  },
};

function isCaseName(name: string): name is CaseName {
  return caseNames.some((known) => known === name);
}

const chosen = values.cases.split(",");
const unknown = chosen.find((name) => !isCaseName(name));
if (unknown !== undefined) throw new Error(`--cases: unknown case "${unknown}", accepted are ${caseNames.join(", ")}`);

const [loadBefore = 0] = loadavg();
const folder = mkdtempSync(join(tmpdir(), "gateway-proxy-bench-"));
const parts: string[] = [];
try {
  await bundleAll(folder);
  process.env[bundlesVariable] = folder;
  if (values.files) {
    const { profiles } = values;
    parts.push(
      await measureLayouts({ routes: Number(values["file-routes"]), rounds: Number(values.rounds), profiles }),
    );
    console.log(parts.join("\n\n"));
  }
  for (const name of values.files ? [] : chosen.filter(isCaseName)) {
    const { title, run } = cases[name];
    console.log(title);
    const rows = await run(options);
    const table = ["|  |  |", "| --- | ---: |", ...rows.map(([figure, value]) => `| ${figure} | ${value} |`)].join(
      "\n",
    );
    console.log(`${table}\n`);
    parts.push(`### ${title}\n\n${table}\n\n${published[name]}`);
  }
} finally {
  rmSync(folder, { recursive: true });
}

const repository = join(import.meta.dirname, "../../..");

function publish(section: string, text: string): void {
  const page = join(repository, "docs/benchmarks.md");
  writeSection(page, section, text);
  execFileSync(join(repository, "node_modules/.bin/prettier"), ["--write", page], { cwd: repository });
}

/** The command, the day, the commit and the machine. */
function writtenBy(command: string): string {
  return `Written by \`${command}\` on ${new Date().toISOString().slice(0, 10)}, commit ${describeCommit()}; ${describeMachine()}. Its load average
before the run was ${loadBefore.toFixed(1)}.`;
}

if (values.files && process.argv.length === 3) {
  publish("files", [describeFiles(writtenBy("npm run bench:scale -- --files")), ...parts].join("\n\n"));
} else if (process.argv.length === 2) {
  const words = `## The control plane at scale

${writtenBy("npm run bench:scale")} The cases are those of [gateway-api-bench](https://github.com/howardjohn/gateway-api-bench), whose published
figures stand below each. Compare them with care: they come from a machine with 16 cores and pods in a kind cluster. Here the controller, a
proxy with one worker, etcd, the API server and the clients share this machine. The programs have no memory limit here, so V8 collects
garbage late; in a pod it is bounded by the limit.`;
  publish("control-plane", [words, ...parts].join("\n\n"));
}
