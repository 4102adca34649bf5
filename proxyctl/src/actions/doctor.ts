/** Runs `proxyctl doctor`: checks everything from the kubeconfig to the counters, with advice for each problem. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import type { Limits } from "@gatewayproxy/admin-api/limits";
import { AdminClient } from "../admin/admin-client.ts";
import type { ProxyConnector } from "../admin/proxy-connector.ts";
import { CommandError, exitCodes } from "../command-error.ts";
import type { PlainFormat } from "../options/output-option.ts";
import type { ConnectOptions } from "../options/connect-options.ts";
import type { Io } from "../io.ts";
import { renderData } from "../output/format.ts";
import { type Styles, stylesFor } from "../output/style.ts";
import { withoutControls } from "../output/controls.ts";
import { examineDump, examineLimits, type Finding } from "../views/health.ts";
import { type GatewayName, narrowToGateway } from "../views/narrow.ts";
import { clientVersion } from "../version.ts";
import { addressConnector, gatewayNameOf, parseTargetOption, requireAddressTarget, withToken } from "./find-admins.ts";

/** Maximum number of further reads of the limits while a rate limit service is not identified yet. */
const maxFurtherReads = 5;
const pauseMs = 200;

/** Options of `proxyctl doctor`. */
export interface DoctorOptions extends ConnectOptions {
  /** `-o`: the format of the results. */
  readonly output: PlainFormat;
}

/** Reports the finding of a check and returns its value; `undefined` if it failed. */
type Check = <T>(
  name: string,
  examine: () => Promise<{ readonly value: T; readonly found: string }>,
) => Promise<T | undefined>;

/** Runs all checks and prints their findings. Sets the exit code for "no" if one failed. */
export async function examineAll(resource: string | undefined, options: DoctorOptions, io: Io): Promise<void> {
  if (options.address !== undefined) requireAddressTarget(resource, options);
  const styles = stylesFor(io.stdout, io.env);
  const findings: Finding[] = [];
  const report = (finding: Finding): void => {
    findings.push(finding);
    // Findings are printed one by one, since some checks wait for the network.
    if (options.output === "table") io.stdout.write(renderFinding(finding, styles));
  };
  await examine(resource, options, io, report);
  if (options.output !== "table") io.stdout.write(renderData(options.output, findings));
  if (findings.some(({ level }) => level === "fail")) io.setExitCode(exitCodes.no);
}

async function examine(
  resource: string | undefined,
  options: DoctorOptions,
  io: Io,
  report: (finding: Finding) => void,
): Promise<void> {
  const check: Check = async (name, attempt) => {
    try {
      const { value, found } = await attempt();
      report({ level: "ok", check: name, found });
      return value;
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      report({ level: "fail", check: name, found: error.message, advice: error.advice.join("; ") });
      return undefined;
    }
  };
  const { address } = options;
  const connector =
    address === undefined ? await examineCluster(resource, options, check) : addressConnector(address, options);
  if (connector === undefined) return;
  // A pod serves only the Gateway by which it was found; a proxy at an address may serve several.
  const gateway = address === undefined ? undefined : gatewayNameOf(resource, options);
  await examineProxy({ admin: new AdminClient(connector), gateway }, io, check, report);
}

/** Checks the cluster and returns a connector to a pod; undefined if there is none. */
async function examineCluster(
  resource: string | undefined,
  options: DoctorOptions,
  check: Check,
): Promise<ProxyConnector | undefined> {
  const { openCluster } = await import("../kube/cluster.ts");
  const { podConnector } = await import("../kube/pod-connector.ts");
  const { resolvePods } = await import("../kube/resolve-pods.ts");
  const cluster = await check("kubeconfig", () => {
    const value = openCluster(options);
    return Promise.resolve({ value, found: `context ${value.context}, ${value.server}, namespace ${value.namespace}` });
  });
  if (cluster === undefined) return undefined;
  const version = await check("API server", async () => {
    const value = await cluster.serverVersion();
    return { value, found: value };
  });
  if (version === undefined) return undefined;
  const connector = await check("proxy pods", async () => {
    const target = parseTargetOption(resource);
    const [first, ...others] = await resolvePods(cluster, {
      ...(target === undefined ? {} : { target }),
      ...(options.pod === undefined ? {} : { pod: options.pod }),
      all: true,
    });
    if (first === undefined) throw new Error("no pod was found, and no error was reported");
    const found = `${others.length + 1} ready; using ${first.name}`;
    return { value: withToken(podConnector(cluster, first, options.adminPort), options), found };
  });
  if (connector === undefined) return undefined;
  const gateway = gatewayNameOf(resource, options);
  await check("Gateway", async () => {
    const all = await cluster.listGateways();
    const matching = all.filter(({ name }) => gateway === undefined || name === gateway.name);
    const unmet = matching.flatMap(({ name, conditions }) =>
      conditions
        .filter(({ status }) => status !== "True")
        .map(({ type, reason, message }) => `${name}: ${type} is not True (${reason}): ${message}`),
    );
    const [first] = unmet;
    if (first !== undefined) {
      throw new CommandError({ message: first, advice: ["check that the controller of its class runs"] });
    }
    return {
      value: matching,
      found: matching.map(({ namespace, name }) => objectKey({ namespace, name })).join(", ") || "none",
    };
  });
  return connector;
}

async function examineProxy(
  { admin, gateway }: { readonly admin: AdminClient; readonly gateway: GatewayName | undefined },
  io: Io,
  check: Check,
  report: (finding: Finding) => void,
): Promise<void> {
  const whole = await check("admin server", async () => {
    const value = await admin.configDump();
    return { value, found: `responds at ${admin.connector.name}` };
  });
  if (whole === undefined) return;
  let dump: ConfigDump | undefined = whole;
  if (gateway !== undefined) {
    dump = await check("Gateway", () => {
      const value = narrowToGateway(whole, gateway);
      return Promise.resolve({ value, found: objectKey(gateway) });
    });
  }
  if (dump === undefined) return;
  report(compareVersions(clientVersion, dump.version.version));
  for (const finding of examineDump(dump, io.clock.nowMs())) report(finding);
  const limits = await check("limits", async () => {
    const value = await identifiedLimits(admin, io);
    return { value, found: `read at ${value.at}` };
  });
  if (limits !== undefined) for (const finding of examineLimits(limits)) report(finding);
}

/**
 * Reads the limits. The first read makes the proxy identify its services; the next ones wait for that, at most a
 * second.
 */
async function identifiedLimits(admin: AdminClient, io: Io): Promise<Limits> {
  // Timers of the clock do not keep a process alive.
  const keepAlive = setInterval(() => undefined, 60_000);
  try {
    for (let reads = 0; ; reads++) {
      const limits = await admin.limits();
      const isKnown = limits.services.every(({ breaker, identity }) => breaker === "open" || identity !== undefined);
      if (isKnown || reads === maxFurtherReads) return limits;
      await new Promise<void>((resolve) => io.clock.setTimer(pauseMs, resolve));
    }
  } finally {
    clearInterval(keepAlive);
  }
}

function compareVersions(client: string, server: string): Finding {
  const check = "versions";
  if (client === server) return { level: "ok", check, found: `proxy and proxyctl are ${client}` };
  return {
    level: "warn",
    check,
    found: `the proxy is ${server}, proxyctl is ${client}`,
    advice: "update the older one",
  };
}

function renderFinding({ level, check, found, advice }: Finding, styles: Styles): string {
  const style = level === "ok" ? styles.good : level === "warn" ? styles.warning : styles.bad;
  const line = `${style(level.padEnd(4))}   ${check.padEnd(19)}   ${withoutControls(found)}\n`;
  return advice === undefined ? line : `${line}${" ".repeat(29)}${styles.faint(`→ ${withoutControls(advice)}`)}\n`;
}
