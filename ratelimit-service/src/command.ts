/** The service's command line: reads the settings, starts, and stops at a signal. Only this module ends the process. */
import { systemClock } from "@gatewayproxy/runtime/clock";
import { exportProblems } from "@gatewayproxy/runtime/export-problems";
import { exitFailure, fail, helpColumns } from "@gatewayproxy/runtime/command-line";
import { completeStart } from "@gatewayproxy/runtime/compilers";
import { collectGarbage } from "@gatewayproxy/runtime/heap-sampling";
import { handleSignals } from "@gatewayproxy/runtime/lifecycle";
import { openStdout } from "@gatewayproxy/runtime/log-destination";
import { renderHelp } from "@gatewayproxy/runtime/settings-text";
import { readVersion } from "@gatewayproxy/runtime/version";
import { createLogs } from "./app/logs.ts";
import { type ExportedLines, exportLines } from "./app/open-line-export.ts";
import { storeAbilities } from "./app/open-config-source.ts";
import { RateLimitProcess } from "./app/ratelimit-process.ts";
import { checkConfig } from "./config/check-config.ts";
import { type DefaultSet, settingsExitCode } from "./settings/defaults.ts";
import { hasHelpFlag } from "@gatewayproxy/runtime/settings";
import { readServiceSettings, type ServiceSettings, serviceSettings } from "./settings.ts";

const summary =
  "A rate limit service with Envoy's protocol, and the files and environment variables of envoyproxy/ratelimit.";
const usage = "npm run ratelimit-service -- [OPTIONS]";

/** Runs the command line of this process. Settings that are not given have the values of `defaults`. */
export async function runCommand(defaults: DefaultSet): Promise<void> {
  const argv = process.argv.slice(2);
  if (argv.includes("--version")) {
    process.stdout.write(`${readVersion(new URL("../package.json", import.meta.url))}\n`);
    return;
  }
  if (hasHelpFlag(argv)) {
    process.stdout.write(renderHelp(serviceSettings, { usage, summary, columns: helpColumns() }));
    return;
  }
  const read = await readServiceSettings({ argv, env: process.env }, defaults);
  if (!read.ok) {
    fail("cannot read the settings", read.problems, settingsExitCode[defaults]);
    return;
  }
  const { checkConfig: directory } = read.value.values;
  await (directory === undefined ? serve(read.value) : check(directory, read.value));
}

async function check(directory: string, { values, store }: ServiceSettings): Promise<void> {
  const { lines, exitCode } = await checkConfig(directory, values.mergeDomainConfigs, storeAbilities(store));
  process.stdout.write(lines.map((line) => `${line}\n`).join(""));
  process.exitCode = exitCode;
}

async function serve(settings: ServiceSettings): Promise<void> {
  const { values } = settings;
  const output = openStdout();
  const logs = createLogs({ filter: values.logLevel, format: values.logFormat }, systemClock, {
    write: (line) => output.write(line),
  });
  const log = logs.logger("ratelimit::lifecycle");
  for (const notice of settings.notices) log.warn({ notice }, "setting without effect");
  const running: { service?: RateLimitProcess; lines?: ExportedLines } = {};
  const stop = async (signal: NodeJS.Signals): Promise<void> => {
    log.info({ signal }, "shutting down");
    // Before the start is complete there is no client to wait for.
    log.info((await running.service?.stop()) ?? {}, "stopped");
    await running.lines?.close();
    process.exit(0);
  };
  // The handlers are installed before the start, because process 1 of a container ignores SIGTERM without a handler.
  handleSignals(
    process,
    {
      shutDown: (signal) => void stop(signal),
      force(signal) {
        log.warn({ signal }, "stopped at once by a second signal");
        process.exit(exitFailure);
      },
    },
    // envoyproxy/ratelimit stops at SIGHUP, too.
    ["SIGTERM", "SIGINT", "SIGHUP"],
  );
  // Timers of the clock do not keep a process alive. While it waits for its first configuration, nothing else does.
  const keepAlive = setInterval(() => undefined, 60_000);
  const onExportProblem = exportProblems(logs.logger("ratelimit::tracing"));
  const { logExport } = settings.telemetry;
  if (logExport !== undefined) running.lines = await exportLines(logExport, logs, onExportProblem);
  const started = await RateLimitProcess.start({
    settings,
    logs,
    clock: systemClock,
    random: Math.random,
    exportedLines: running.lines?.counts,
    onExportProblem,
    onFatal(error) {
      log.error({ err: error }, "cannot continue");
      process.exit(exitFailure);
    },
  });
  clearInterval(keepAlive);
  if (!started.ok) {
    const isFolderMissing = started.problems.some(({ path }) => path === "RUNTIME_ROOT");
    fail("cannot start", started.problems, isFolderMissing ? settingsExitCode[settings.defaults] : exitFailure);
    await running.lines?.close();
    process.exit();
  }
  running.service = started.value;
  const { configType, workers } = values;
  log.debug({ configType, workers, store: settings.store.kind }, "start is complete");
  log.info({ ...started.value.addresses, store: settings.store.kind, workers: values.workers }, "ready");
  completeStart();
  collectGarbage();
}
