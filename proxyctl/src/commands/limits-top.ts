/** `proxyctl limits top`: live counters, redrawn on a terminal, once elsewhere. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { type Command, InvalidArgumentError, Option } from "commander";
import type { AdminClient } from "../admin/admin-client.ts";
import type { Io } from "../io.ts";
import { renderData } from "../output/format.ts";
import { clip, stylesFor } from "../output/style.ts";
import { fit } from "../terminal/fit.ts";
import { isInteractive, openScreen } from "../terminal/screen.ts";
import { type LiveLimits, renderLiveLimits } from "../views/live-limits.ts";
import { addReachOptions, findAdmins, type ReachOptions } from "./reach-options.ts";

interface TopOptions extends ReachOptions {
  readonly output: "table" | "json" | "yaml";
  readonly interval: number;
  readonly once?: true;
}

/** Adds `top`. */
export function addLimitsTopCommand(limits: Command, io: Io): void {
  addReachOptions(
    limits
      .command("top [resource]")
      .description("Show the counters that are nearest to their limit, live on a terminal"),
    { allPods: true },
  )
    .addOption(
      new Option("--interval <seconds>", "how often to look, from 1 to 60").argParser(parseInterval).default(1),
    )
    .option("--once", "print one table, on a terminal too")
    .addOption(
      new Option("-o, --output <format>", "how to print it").choices(["table", "json", "yaml"]).default("table"),
    )
    .action(async (resource: string | undefined, options: TopOptions) => {
      const admins = await findAdmins(resource, options);
      if (options.output === "table" && options.once !== true && isInteractive(io)) {
        await watch(admins, options.interval * 1_000, io);
        return;
      }
      const now = await readAll(admins);
      const [first] = now;
      if (options.output === "table") io.stdout.write(renderLiveLimits(now, stylesFor(io.stdout, io.env)));
      else if (now.length === 1) io.stdout.write(renderData(options.output, first?.limits));
      else
        io.stdout.write(
          renderData(options.output, Object.fromEntries(now.map(({ from, limits: each }) => [from, each]))),
        );
    });
}

function parseInterval(text: string): number {
  const seconds = Number(text);
  if (seconds >= 1 && seconds <= 60) return seconds;
  throw new InvalidArgumentError("It must be a number from 1 to 60.");
}

async function readAll(admins: readonly AdminClient[]): Promise<readonly LiveLimits[]> {
  return await Promise.all(admins.map(async (admin) => ({ from: admin.reach.label, limits: await admin.limits() })));
}

/** Until the user quits; a failure ends it and is told on the user's own screen. */
async function watch(admins: readonly AdminClient[], intervalMs: number, io: Io): Promise<void> {
  const styles = stylesFor(io.stdout, io.env);
  const names = admins.map(({ reach }) => reach.name).join(", ");
  const quit = new AbortController();
  const stop = AbortSignal.any([quit.signal, io.signal]);
  let now: readonly LiveLimits[] = [];
  const draw = (): void => {
    const { columns, rows } = screen.size();
    const table = renderLiveLimits(now, styles)
      .trimEnd()
      .split("\n")
      .slice(0, rows - 2)
      .map((line) => clip(line, columns));
    screen.draw([styles.strong(fit(`limits of ${names}   q quit`, columns)), "", ...table]);
  };
  const screen = openScreen(io, { onKey: (key) => key === "quit" && quit.abort(), onResize: () => draw() });
  try {
    while (!stop.aborted) {
      now = await readAll(admins);
      draw();
      await pause(io.clock, intervalMs, stop);
    }
  } finally {
    screen.close();
  }
}

/** Resolves after the time, or at once when `stop` is aborted. The keyboard keeps the process alive meanwhile. */
function pause(clock: Clock, ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      timer.cancel();
      stop.removeEventListener("abort", end);
      resolve();
    };
    const timer = clock.setTimer(ms, end);
    stop.addEventListener("abort", end);
    if (stop.aborted) end();
  });
}
