/**
 * Compares ways to serve TLS with Node.js, by the CPU time of a request: `npm exec -- node
 * test/bench/prototypes/tls/main.ts [rounds] [seconds]`. ADR 62 has its results.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TestAuthority } from "../../../support/certificates.ts";
import { requireProgram } from "../../../support/programs.ts";
import type { BenchCase } from "../../cases.ts";
import { applyLoad } from "../../load.ts";
import { freePorts, type RunningProgram, startProgram, untilReady } from "../../process.ts";
import { spread } from "../../statistics.ts";
import { tlsVariants } from "./server.ts";

interface Running {
  readonly variant: string;
  readonly benchCase: BenchCase;
  readonly port: number;
  readonly program: RunningProgram;
  /** CPU µs of a request, in each round. */
  readonly samples: number[];
}

const [rounds = 9, seconds = 3] = process.argv.slice(2).map(Number);
const folder = mkdtempSync(join(tmpdir(), "tls-prototypes-"));
const { cert, key } = new TestAuthority(requireProgram("openssl"), folder, "authority").issue("server", "IP:127.0.0.1");

const ports = await freePorts(tlsVariants.length);
const servers = tlsVariants.map((variant, index) => start(variant, ports[index] ?? 0));
try {
  for (const server of servers) {
    await untilReady(server.program, async () => void (await load(server, 1)));
  }
  for (let round = 0; round < rounds; round++) {
    for (const server of servers) await sample(server);
  }
  print();
} finally {
  await Promise.all(servers.map(({ program }) => program.stop()));
  rmSync(folder, { recursive: true });
}

function start(variant: string, port: number): Running {
  const args = [join(import.meta.dirname, "server.ts"), variant, String(port)];
  const program = startProgram(variant, process.execPath, args, { CERTIFICATE: cert, KEY: key });
  const benchCase: BenchCase = {
    ...{ name: variant, title: variant, listener: variant === "plain" ? "plain" : "tls", method: "GET", path: "/" },
    ...{ headers: {}, body: undefined, load: "wrk", connections: 64, streams: 1, expectHeader: undefined },
  };
  return { variant, benchCase, port, program, samples: [] };
}

function load({ benchCase, port }: Running, forSeconds: number) {
  return applyLoad(benchCase, port, forSeconds, folder);
}

async function sample(server: Running): Promise<void> {
  const before = server.program.cpu();
  const { requests } = await load(server, seconds);
  const after = server.program.cpu();
  server.samples.push((after.userUs + after.systemUs - before.userUs - before.systemUs) / requests);
}

function print(): void {
  const base = servers.find(({ variant }) => variant === "as in the proxy");
  console.log("| variant | CPU µs/request | lowest–highest | × as in the proxy |\n| --- | --: | --: | --: |");
  for (const { variant, samples } of servers) {
    const { median, min, max } = spread(samples);
    const ratios = spread(samples.map((value, round) => value / (base?.samples[round] ?? Number.NaN)));
    const range = `${min.toFixed(1)}–${max.toFixed(1)}`;
    console.log(`| ${variant} | ${median.toFixed(1)} | ${range} | ${ratios.median.toFixed(2)} |`);
  }
}
