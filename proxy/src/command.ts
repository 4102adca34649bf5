/**
 * The command line of the proxy: reads the settings, starts, and stops at a signal. Only this file exits the process.
 */
import { systemClock } from "@gatewayproxy/runtime/clock";
import { exportProblems } from "@gatewayproxy/runtime/export-problems";
import { openSender } from "@gatewayproxy/runtime/open-sender";
import { disableMaglev } from "@gatewayproxy/runtime/compilers";
import { exitFailure, fail, failSettings, readCommandLine } from "@gatewayproxy/runtime/command-line";
import type { ExportCounts } from "@gatewayproxy/runtime/export-observer";
import { collectGarbage } from "@gatewayproxy/runtime/heap-sampling";
import { handleSignals, surviveRejections } from "@gatewayproxy/runtime/lifecycle";
import { Logs } from "@gatewayproxy/runtime/log";
import { openStdout } from "@gatewayproxy/runtime/log-destination";
import { type LogExportSettings, readLogExportSettings } from "@gatewayproxy/runtime/log-export-settings";
import { readMetricExportSettings } from "@gatewayproxy/runtime/metric-export-settings";
import { problemsOfAll } from "@gatewayproxy/runtime/otel-variables";
import { readSemconvOptIn, readTracingSettings } from "@gatewayproxy/runtime/tracing-settings";
import { readVersion } from "@gatewayproxy/runtime/version";
import { exportLines } from "./app/open-log-export.ts";
import { Proxy } from "./app/proxy.ts";
import { exportsLog, type ProxySettings, proxySettings, settingConflicts } from "./app/settings.ts";
import { telemetryDefaults } from "./app/telemetry-defaults.ts";
import { latestGenAi } from "./telemetry/gen-ai-table.ts";

const summary = "Serves the Gateways, routes and limits of a folder of manifests, or of a Kubernetes cluster.";
const usage = "npm run proxy -- --config-dir DIR [OPTIONS], or --kubernetes [--gateway NAMESPACE/NAME] [OPTIONS]";

const version = readVersion(new URL("../package.json", import.meta.url));

const settings = readCommandLine(
  proxySettings,
  { usage, summary, version },
  { argv: process.argv.slice(2), env: process.env },
);
if (settings !== undefined) await run(settings);

async function run(settings: ProxySettings): Promise<void> {
  const conflicts = settingConflicts(settings);
  const defaults = telemetryDefaults(version, settings);
  const tracing = readTracingSettings(process.env, defaults);
  const metricExport = readMetricExportSettings(process.env, defaults);
  const logExport = readLogExportSettings(process.env, defaults.resource);
  if (conflicts.length > 0 || !tracing.ok || !metricExport.ok || !logExport.ok) {
    failSettings([...conflicts, ...problemsOfAll([tracing, metricExport, logExport])]);
    return;
  }
  const logs = new Logs({ filter: settings.logLevel, clock: systemClock, destination: openStdout() });
  const log = logs.logger("proxy::lifecycle");
  surviveRejections(process, (error) => log.error({ err: error }, "a background task failed"));
  // The exception ends the process all the same; a supervisor restarts it.
  process.on("uncaughtExceptionMonitor", (error) => log.error({ err: error }, "uncaught exception in the main thread"));
  const running: { proxy?: Proxy; lines?: ExportedLines | undefined } = {};
  let isStopping = false;
  const stop = async (cause: object): Promise<void> => {
    if (isStopping) return;
    isStopping = true;
    log.info(cause, "shutting down");
    // During the start there is no client to wait for.
    log.info((await running.proxy?.stop()) ?? {}, "stopped");
    await running.lines?.close();
    process.exit(0);
  };
  // Before the start: as process 1 of a container, a process without handlers ignores SIGTERM.
  handleSignals(process, {
    shutDown: (signal) => void stop({ signal }),
    force(signal) {
      log.warn({ signal }, "stopped immediately by a second signal");
      process.exit(exitFailure);
    },
  });
  // Without a file, SIGHUP ends the process, as for other programs without a terminal.
  if (settings.accessLogFile !== undefined) process.on("SIGHUP", () => void running.proxy?.reopenAccessLog());
  if (exportsLog(settings, "application")) running.lines = await exportMainLines(logs, logExport.value);
  const started = await Proxy.start({
    settings,
    tracing: tracing.value,
    metricExport: metricExport.value,
    isLatestGenAi: readSemconvOptIn(process.env).includes(latestGenAi),
    logExport: logExport.value,
    exportedLines: running.lines?.counts,
    env: process.env,
    logs,
    clock: systemClock,
    onReady() {
      disableMaglev();
      collectGarbage();
    },
    onQuit: () => void stop({ by: "/quitquitquit" }),
  });
  if (!started.ok) {
    fail("cannot start", started.problems, exitFailure);
    await running.lines?.close();
    process.exit();
  }
  running.proxy = started.value;
}

/** Maximum time for which the end of the process waits for a collector, in ms. */
const exportFlushMs = 2_000;

/** The export of the lines of the main thread. */
interface ExportedLines {
  readonly counts: Readonly<ExportCounts>;
  close(): Promise<void>;
}

/** Exports the lines of the main thread, if there are settings. */
async function exportMainLines(
  logs: Logs,
  settings: LogExportSettings | undefined,
): Promise<ExportedLines | undefined> {
  if (settings === undefined) return undefined;
  const counts: ExportCounts = { exported: 0, failed: 0, dropped: 0 };
  const log = logs.logger("proxy::tracing");
  const exporter = await exportLines(settings, [logs], {
    log,
    openSender,
    onRecordsEnded(outcome, count) {
      counts[outcome] += count;
    },
    onProblem: exportProblems(log),
  });
  return { counts, close: () => exporter.close(exportFlushMs) };
}
