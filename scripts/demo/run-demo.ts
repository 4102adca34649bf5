/**
 * The common part of all demos: reads options, checks the ports, starts programs, prints commands to try, and ends the
 * programs.
 */
import { rm } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { copyMoved, moved, type Place, readArguments, takenPlaces } from "./ports.ts";
import { type Program, stop, untilEnd, untilInterrupted } from "./programs.ts";

export interface Demo<PortName extends string> {
  /** The name of its script in package.json. */
  readonly script: string;
  /** A sentence for `--help`. */
  readonly summary: string;
  /** The folder that it serves, from the root of the repository. */
  readonly folder: string;
  /** All its ports, without an offset. */
  readonly ports: Readonly<Record<PortName, number>>;
  /** The addresses on which it listens. */
  readonly places: (ports: Readonly<Record<PortName, number>>) => readonly Place[];
  /** Starts its programs. @param folder of the demo, or a copy of it with other ports */
  readonly start: (ports: Readonly<Record<PortName, number>>, folder: string) => Started;
}

export interface Started {
  /** The demo is ready when all of these are ready. It prints their logs. */
  readonly proxies: readonly Program[];
  /** Other programs that the demo needs. */
  readonly needed: readonly Program[];
  /** Programs that may end before the demo. */
  readonly optional: readonly Program[];
  /**
   * Shows something by itself when the demo is ready, before the instructions.
   *
   * @throws if it does not go as it should.
   */
  readonly show?: () => Promise<void>;
  /** The commands to try, printed when the demo is ready: at most 24 lines, the height of a screen. */
  readonly instructions: string;
}

const readyWithinMs = 30_000;

/** Runs a demo with the options of the command line, until Ctrl-C or until a needed program ends. */
export async function runDemo<PortName extends string>(demo: Demo<PortName>): Promise<void> {
  const asked = readArguments(process.argv.slice(2));
  if (asked.kind === "help") {
    console.log(usageOf(demo));
    return;
  }
  if (asked.kind === "invalid") {
    fail(asked.message);
    return;
  }
  const ports = moved(demo.ports, asked.offset);
  const taken = await takenPlaces(demo.places(ports));
  if (taken.length > 0) {
    const way = `End what listens there, or use other ports: npm run ${demo.script} -- --port-offset 1000`;
    fail(["The demo cannot start:", ...taken, way].join("\n"));
    return;
  }
  const usual = Object.values<number>(demo.ports);
  const copy = asked.offset === 0 ? undefined : await copyMoved(demo.folder, usual, asked.offset);
  try {
    await runUntilEnd(demo.start(ports, copy ?? demo.folder));
  } finally {
    if (copy !== undefined) await rm(copy, { recursive: true });
  }
}

async function runUntilEnd({ proxies, needed, optional, show, instructions }: Started): Promise<void> {
  const ready = Promise.all(proxies.map((proxy) => proxy.logged('"msg":"ready"'))).then(() => "ready" as const);
  const late = delay(readyWithinMs, `not ready within ${readyWithinMs / 1_000} s` as const, { ref: false });
  const over = Promise.race([untilInterrupted(), ...[...proxies, ...needed].map(untilEnd)]);
  let start = await Promise.race([ready, late, over]);
  if (start === "ready" && show !== undefined) start = await Promise.race([shown(show), over]);
  if (start === "ready") {
    console.log(instructions);
    for (const proxy of proxies) proxy.follow(proxies.length > 1 ? `${proxy.name} | ` : "");
  }
  const fault = start === "ready" ? await over : start;
  const programs = [...proxies, ...needed, ...optional];
  await Promise.all(programs.map(stop));
  if (fault === undefined) {
    console.log("The demo has ended.");
    return;
  }
  for (const program of programs) program.showAll();
  fail(`The demo has ended: ${fault}.`);
}

async function shown(show: () => Promise<void>): Promise<string> {
  try {
    await show();
    return "ready";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function usageOf({ script, summary, ports }: Demo<string>): string {
  return `Usage: npm run ${script} -- [OPTIONS]

${summary}

Options:
  --port-offset N   Adds N to every port: ${Object.values(ports).join(", ")}.
  --help            Shows this text.`;
}

/** Prints the reason for the end of the demo, and sets the exit code without exiting. */
function fail(message: string): void {
  console.error(message);
  process.exitCode = 1;
}
