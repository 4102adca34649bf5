/** The proxy's command line: reads the settings, starts, and stops at a signal. The only place that exits. */
import { systemClock } from "@gatewayproxy/runtime/clock";
import { handleSignals } from "@gatewayproxy/runtime/lifecycle";
import { Logs } from "@gatewayproxy/runtime/log";
import { openStdout } from "@gatewayproxy/runtime/log-destination";
import { parseLogFilter } from "@gatewayproxy/runtime/log-filter";
import { type Problem, renderProblem } from "@gatewayproxy/runtime/problem";
import { readSettings } from "@gatewayproxy/runtime/settings";
import { renderHelp } from "@gatewayproxy/runtime/settings-text";
import { Proxy } from "./app/proxy.ts";
import { type ProxySettings, proxySettings, settingConflicts } from "./app/settings.ts";

/** sysexits.h EX_USAGE: the command line is wrong; 1: the command could not be carried out. */
const exitUsage = 64;
const exitFailure = 1;

const summary = "Serves the Gateways, routes and limits of a folder of manifests, or of a Kubernetes cluster.";
const usage = "npm run proxy -- --config-dir DIR [OPTIONS], or --kubernetes [--gateway NAMESPACE/NAME] [OPTIONS]";

const read = readSettings(proxySettings, { argv: process.argv.slice(2), env: process.env });
switch (read.kind) {
  case "help":
    process.stdout.write(renderHelp(proxySettings, { usage, summary }));
    break;
  case "invalid":
    fail("cannot read the settings", read.problems, exitUsage);
    break;
  case "values":
    await run(read.values);
}

async function run(settings: ProxySettings): Promise<void> {
  const conflicts = settingConflicts(settings);
  if (conflicts.length > 0) {
    fail("cannot read the settings", conflicts, exitUsage);
    return;
  }
  const filter = parseLogFilter(settings.logLevel);
  if (!filter.ok) {
    fail(
      "cannot read the settings",
      filter.problems.map((problem) => ({ ...problem, path: "--log-level" })),
      exitUsage,
    );
    return;
  }
  const logs = new Logs({ filter: filter.value, clock: systemClock, destination: openStdout() });
  const log = logs.logger("proxy::lifecycle");
  let isStopping = false;
  const stop = (cause: object): void => {
    if (isStopping) return;
    isStopping = true;
    log.info(cause, "shutting down");
    void proxy.stop().then((outcome) => {
      log.info(outcome, "stopped");
      process.exit(0);
    });
  };
  const started = await Proxy.start({
    settings,
    env: process.env,
    logs,
    clock: systemClock,
    onQuit: () => stop({ by: "/quitquitquit" }),
  });
  if (!started.ok) {
    fail("cannot start", started.problems, exitFailure);
    process.exit();
  }
  const proxy = started.value;
  handleSignals(process, {
    shutDown: (signal) => stop({ signal }),
    force(signal) {
      log.warn({ signal }, "stopped at once by a second signal");
      process.exit(exitFailure);
    },
  });
}

/** For people, on standard error; the exit code is set, not taken. */
function fail(attempt: string, problems: readonly Problem[], code: number): void {
  process.stderr.write(`${attempt}:\n${problems.map((problem) => `  ${renderProblem(problem)}\n`).join("")}`);
  process.exitCode = code;
}
