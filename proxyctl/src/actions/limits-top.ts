/** Runs `proxyctl limits top`: shows live counters, redrawn on a terminal, otherwise once. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { AdminClient } from "../admin/admin-client.ts";
import { CommandError } from "../command-error.ts";
import type { PlainFormat } from "../options/output-option.ts";
import type { ConnectOptions } from "../options/connect-options.ts";
import type { Io } from "../io.ts";
import { renderData } from "../output/format.ts";
import { clip, stylesFor } from "../output/style.ts";
import { fit } from "../terminal/fit.ts";
import { isInteractive, openScreen } from "../terminal/screen.ts";
import { type LiveLimits, renderLiveLimits } from "../views/live-limits.ts";
import { findAdmins } from "./find-admins.ts";

/** Options of `proxyctl limits top`. */
export interface TopOptions extends ConnectOptions {
  /** `-o`: the format; formats other than `table` are printed once. */
  readonly output: PlainFormat;
  /** `--interval`: seconds between updates, from 1 to 60; 1 by default. */
  readonly interval: number;
  /** `--once`: prints one table, on a terminal too. */
  readonly once?: true;
}

/** Shows the counters, until the user quits or once. */
export async function showTop(resource: string | undefined, options: TopOptions, io: Io): Promise<void> {
  if (options.output === "table" && options.once !== true && isInteractive(io)) {
    await watch(() => findAdmins(resource, options), options.interval * 1_000, io);
    return;
  }
  const now = await readAll(await findAdmins(resource, options));
  const [first] = now;
  if (options.output === "table") {
    io.stdout.write(renderLiveLimits(now, stylesFor(io.stdout, io.env)));
  } else if (now.length === 1) {
    io.stdout.write(renderData(options.output, first?.limits));
  } else {
    const byProxy = Object.fromEntries(now.map(({ from, limits }) => [from, limits]));
    io.stdout.write(renderData(options.output, byProxy));
  }
}

async function readAll(admins: readonly AdminClient[]): Promise<readonly LiveLimits[]> {
  return await Promise.all(
    admins.map(async (admin) => ({ from: admin.connector.label, limits: await admin.limits() })),
  );
}

/**
 * Shows counters until the user quits. If a proxy does not respond, such as during a restart, the command continues: it
 * shows the last counters with their age, and looks up the pods again, since the pods of a Deployment return with other
 * names.
 */
async function watch(find: () => Promise<readonly AdminClient[]>, intervalMs: number, io: Io): Promise<void> {
  const styles = stylesFor(io.stdout, io.env);
  const quit = new AbortController();
  const stop = AbortSignal.any([quit.signal, io.signal]);
  let admins = await find();
  // A proxy that cannot be reached at all is reported on the user's own screen.
  let read: Reading = { limits: await readAll(admins), atMs: io.clock.nowMs(), error: undefined };
  const draw = (): void => {
    const { columns, rows } = screen.size();
    const title = `limits of ${admins.map(({ connector }) => connector.name).join(", ")}   q quit`;
    const error = read.error === undefined ? "" : renderError(read, io.clock.nowMs());
    const table = renderLiveLimits(read.limits, styles, { columns, rows: rows - 2 })
      .trimEnd()
      .split("\n")
      .map((line) => clip(line, columns));
    screen.draw([styles.strong(fit(title, columns)), styles.bad(fit(error, columns)), ...table]);
  };
  const refresh = async (): Promise<void> => {
    try {
      if (read.error !== undefined) admins = await find();
      read = { limits: await readAll(admins), atMs: io.clock.nowMs(), error: undefined };
    } catch (cause) {
      if (!(cause instanceof CommandError)) throw cause;
      read = { ...read, error: cause.message };
    }
  };
  const screen = openScreen(io, { onKey: (key) => key === "quit" && quit.abort(), onResize: () => draw() });
  const stopped = new Promise((resolve) => stop.addEventListener("abort", resolve, { once: true }));
  try {
    while (!stop.aborted) {
      draw();
      await pause(io.clock, intervalMs, stop);
      // A user who quits does not wait for a response.
      await Promise.race([refresh(), stopped]);
    }
    // Ctrl-C is reported by the exit code, as in all commands.
    io.signal.throwIfAborted();
  } finally {
    screen.close();
  }
}

/** The last counters, and the error since then. */
interface Reading {
  readonly limits: readonly LiveLimits[];
  /** Wall time in ms since the epoch. */
  readonly atMs: number;
  readonly error: string | undefined;
}

function renderError({ atMs, error = "" }: Reading, nowMs: number): string {
  return `${Math.round((nowMs - atMs) / 1_000)} s old: ${error}`;
}

/** Resolves after the time, or when `stop` aborts. The keyboard keeps the process alive meanwhile. */
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
