/**
 * The controller's command line: reads the settings, starts, and stops at a signal. Only this module ends the process.
 */
import { systemClock } from "@gatewayproxy/runtime/clock";
import { exitFailure, fail, readCommandLine } from "@gatewayproxy/runtime/command-line";
import { boundHeapGrowth } from "@gatewayproxy/runtime/allocation";
import { disableMaglev } from "@gatewayproxy/runtime/compilers";
import { handleSignals, Readiness, surviveRejections } from "@gatewayproxy/runtime/lifecycle";
import { describeListenError } from "@gatewayproxy/runtime/listen-error";
import { Logs } from "@gatewayproxy/runtime/log";
import { openStdout } from "@gatewayproxy/runtime/log-destination";
import { metricsPage } from "@gatewayproxy/runtime/metrics-page";
import { watchProcess } from "@gatewayproxy/runtime/process-metrics";
import { throttle } from "@gatewayproxy/runtime/throttle";
import type { Problem } from "@gatewayproxy/runtime/problem";
import { readVersion } from "@gatewayproxy/runtime/version";
import { openPageServer, type Page } from "./app/page-server.ts";
import { Controller } from "./controller/controller.ts";
import { ControllerMetrics } from "./controller/metrics.ts";
import { peersOf } from "./controller/provision/network-policy-peers.ts";
import { type ControllerSettings, controllerSettings } from "./controller/settings.ts";
import { findCluster } from "./kube/cluster.ts";
import { ClusterConnection } from "./kube/connection.ts";

const summary =
  "Runs the Gateways of a Kubernetes cluster: deploys their proxies and writes the statuses of their resources.";
const usage = "npm run controller -- --proxy-image IMAGE [OPTIONS]";

const version = readVersion(new URL("../package.json", import.meta.url));

const settings = readCommandLine(
  controllerSettings,
  { usage, summary, version },
  { argv: process.argv.slice(2), env: process.env },
);
if (settings !== undefined) await run(settings);

async function run(settings: ControllerSettings): Promise<void> {
  const cluster = await findCluster({ env: process.env });
  const logs = new Logs({ filter: settings.logLevel, clock: systemClock, destination: openStdout() });
  const log = logs.logger("controller::lifecycle");
  surviveRejections(process, (error) => log.error({ err: error }, "unhandled rejection of a promise"));
  const readiness = new Readiness(["resources"]);
  const metrics = new ControllerMetrics();
  const pageProblems = await openPages(settings, readiness, metrics);
  if (!cluster.ok || pageProblems.length > 0) {
    fail("cannot start", [...(cluster.ok ? [] : cluster.problems), ...pageProblems], exitFailure);
    process.exit();
  }
  const { statsAddress, readinessAddress } = settings;
  log.debug({ statsAddress, readinessAddress }, "servers opened");
  log.info({ server: cluster.value.server.href, identity: settings.identity }, "reading the cluster");
  const controller = new Controller({
    ...{ logs, clock: systemClock, random: Math.random, connection: new ClusterConnection(cluster.value) },
    ...{ namespace: settings.namespace, identity: settings.identity, defaults: proxyDefaults(settings) },
    onSynced() {
      boundHeapGrowth();
      if (!readiness.isReady) {
        disableMaglev();
        log.info("ready");
      }
      readiness.meet("resources");
    },
    onLeading: (isLeader) => metrics.leading(isLeader),
    onWritten: (outcome) => metrics.statusWritten(outcome),
  });
  handleSignals(process, {
    shutDown(signal) {
      log.info({ signal }, "shutting down");
      readiness.withdraw("shutting down");
      void controller.close().then(() => {
        log.info("stopped");
        process.exit(0);
      });
    },
    force(signal) {
      log.warn({ signal }, "stopped at once by a second signal");
      process.exit(exitFailure);
    },
  });
}

/** Opens the servers for metrics and readiness. Resolves with a problem for each that cannot be opened. */
async function openPages(
  { statsAddress, readinessAddress }: ControllerSettings,
  readiness: Readiness,
  metrics: ControllerMetrics,
): Promise<readonly Problem[]> {
  const ofProcess = watchProcess();
  const renderReadiness = (): Promise<Page> =>
    Promise.resolve({
      status: readiness.isReady ? 200 : 503,
      contentType: "text/plain",
      body: `${readiness.describe()}\n`,
    });
  const renderStats = metricsPage(async () => [...metrics.families(), ...(await ofProcess.families())], systemClock);
  const readinessPage = openPageServer(readinessAddress, "/healthz/ready", throttle(renderReadiness, systemClock));
  const statsPage = openPageServer(statsAddress, "/metrics", async (accept) => {
    return { status: 200, ...(await renderStats(accept)) };
  });
  const [ready, stats] = await Promise.allSettled([readinessPage, statsPage]);
  return [...problemOf("--readiness-address", ready), ...problemOf("--stats-address", stats)];
}

function problemOf(setting: string, opened: PromiseSettledResult<unknown>): readonly Problem[] {
  if (opened.status === "fulfilled") return [];
  return [{ path: setting, message: describeListenError(opened.reason) }];
}

function proxyDefaults(settings: ControllerSettings) {
  return {
    image: settings.proxyImage,
    imagePullPolicy: settings.proxyImagePullPolicy,
    replicas: settings.proxyReplicas,
    serviceType: settings.proxyServiceType,
    clusterRole: settings.proxyClusterRole,
    hasNetworkPolicy: settings.proxyNetworkPolicy === "on",
    metricsFrom: peersOf(settings.proxyMetricsFrom ?? [], settings.namespace),
    allowedAddresses: settings.proxyAllowBackendAddress ?? [],
    refusedPolicies: settings.proxyRefusedPolicies,
  };
}
