/**
 * Does what a proxy does at its start with a folder of manifests, one stage after the other, and prints the times as
 * JSON: `node test/bench/scale/file-stages.ts FOLDER`. `--cpu-prof` of Node shows what a stage does.
 */
import { randomUUID } from "node:crypto";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { parseResource } from "../../../proxy/src/api/parse-resource.ts";
import { documentParts } from "../../../proxy/src/api/plain-yaml.ts";
import { resourceSet } from "../../../proxy/src/api/resource.ts";
import { type ManifestFile, validValue } from "../../../proxy/src/api/yaml-text.ts";
import { batchesOf, SentParts } from "../../../proxy/src/app/sent-parts.ts";
import { packSnapshot, ReceivedParts } from "../../../proxy/src/app/snapshot-parts.ts";
import { DataPlane } from "../../../proxy/src/data-plane/data-plane.ts";
import { CounterTable, createCounters } from "../../../proxy/src/policy/ratelimit/counter-table.ts";
import { readManifestFolder } from "../../../proxy/src/source/manifest-folder.ts";
import { hostEnvironment } from "../../../proxy/src/translate/environment.ts";
import { noCredentials } from "../../../proxy/src/translate/tls/credentials.ts";
import { translateInSteps } from "../../../proxy/src/translate/translate.ts";

/** The processor time of all threads, and the time that passed, in milliseconds. */
export interface StageTime {
  readonly stage: string;
  readonly cpuMs: number;
  readonly wallMs: number;
}

const times: StageTime[] = [];

async function measured<Value>(stage: string, run: () => Value | Promise<Value>): Promise<Value> {
  const [before, startMs] = [process.cpuUsage(), performance.now()];
  const value = await run();
  const { user, system } = process.cpuUsage(before);
  times.push({ stage, cpuMs: (user + system) / 1_000, wallMs: performance.now() - startMs });
  return value;
}

function* valuesOf({ path, text }: ManifestFile): Generator {
  for (const { from, to } of documentParts(text) ?? []) {
    const read = runToEnd(validValue(text.slice(from, to)));
    if (read === undefined) throw new Error(`${path} is not valid`);
    yield read.value;
  }
}

const dataPlane = new DataPlane({
  ...{ clock: systemClock, random: () => 0, createRequestId: randomUUID },
  counters: new CounterTable(createCounters(1_024, 2), 1, systemClock),
  ...{ reusePort: false, expectsProxyHeader: false, portOf: () => 0 },
  observer: {
    connectionOpened: () => undefined,
    connectionClosed: () => undefined,
    connectionShed: () => undefined,
    requestStarted: () => undefined,
    requestEnded: () => undefined,
    denied: () => undefined,
    mirrored: () => undefined,
  },
  faulted: (error) => {
    throw error;
  },
});

const [folder = ""] = process.argv.slice(2);
const entries = await measured("read the files", () => readManifestFolder(folder, () => undefined));
const files = entries.flatMap((entry) => ("text" in entry ? [entry] : []));
const values = await measured("YAML to values", () => files.flatMap((file) => [...valuesOf(file)]));
const resources = await measured("check by schema", () =>
  resourceSet(
    values.flatMap((value) => {
      const parsed = parseResource(value);
      if (parsed.kind !== "resource") throw new Error(`${JSON.stringify(value)} is ${parsed.kind}`);
      return [parsed.resource];
    }),
  ),
);
const options = { environment: { ...hostEnvironment, defaultAddress: "127.0.0.1" }, before: noCredentials };
const { binds, backends } = await measured("translate", () => runToEnd(translateInSteps(resources, options)));
const packed = await measured("pack", () => runToEnd(packSnapshot({ generation: 1, binds, backends })));
const received = new ReceivedParts();
await measured("send to a worker", () => {
  const { added } = new SentParts().next(packed.groups);
  for (const batch of batchesOf(added)) received.add(structuredClone(batch));
});
const assembled = await measured("assemble in a worker", () => runToEnd(received.assemble(packed.frame)));
const failures = await measured("compile in a worker", () => dataPlane.apply(assembled));
if (failures.length > 0) throw new Error(JSON.stringify(failures));
console.log(JSON.stringify(times));
const drained = dataPlane.drain();
dataPlane.destroy();
await drained;
