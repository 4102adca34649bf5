/**
 * The official Gateway API conformance suite against this gateway: `npm run test:conformance`. A control plane and a
 * fake node from the rig; the controller as a process of this machine under its own ServiceAccount, the proxies as pods
 * of the fake node, which has no Service addresses: `load-balancer.ts` reports those of the pods.
 *
 * Arguments go to the suite, such as `-run-test HTTPRouteMatching`. Without any, it tests everything that
 * `supported-features.ts` claims, and writes the official report to docs/conformance. `--experimental` uses the CRDs of
 * the API's experimental channel; `--grpc`, `--tls`, `--tcp` and `--udp`, alone or together, report the profiles
 * GATEWAY-GRPC, GATEWAY-TLS, … in place of GATEWAY-HTTP; `--keep` does not stop the cluster afterwards. Needs root and
 * Linux. Logs are kept in the folder that is printed at the start.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { supportedFeatures } from "../../proxy/src/controller/supported-features.ts";
import { gatewayApiCrds, requireRigProgram } from "./binaries.ts";
import { type ControlPlane, startControlPlane } from "./control-plane.ts";
import { Daemon } from "./daemon.ts";
import { visibleFolder } from "./checkout.ts";
import { applyDefinitions } from "./definitions.ts";
import { nodeAddress, startFakeNode } from "./fake-node.ts";
import { startLoadBalancer } from "./load-balancer.ts";

const repository = join(import.meta.dirname, "..", "..");
const namespace = "gateway-proxy-system";
const image = "gatewayproxy/gateway-proxy";

/** Each pod is one small process. */
const installation = `
apiVersion: v1
kind: Namespace
metadata: {name: ${namespace}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway-proxy}
spec:
  controllerName: gatewayproxy.dev/controller
  parametersRef: {group: "", kind: ConfigMap, name: fake-node, namespace: ${namespace}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: fake-node, namespace: ${namespace}}
data:
  deployment: |
    spec: {template: {spec: {containers: [{name: proxy, env: [{name: WORKERS, value: "1"}]}]}}}
`;

/** Pods' addresses; another rig on this machine needs others. */
const podPrefix = process.env["KUBE_RIG_POD_PREFIX"] ?? "10.243";

/** Addresses that a Gateway may request: one of the load balancer's, and one that it does not have (RFC 5737). */
const usableAddress = `${podPrefix}.255.250`;
const unusableAddress = "192.0.2.1";

/** The profiles of other routes than HTTPRoutes have flags. */
const profileFlags = ["--grpc", "--tls", "--tcp", "--udp"];
const ownFlags = ["--keep", "--experimental", ...profileFlags];
const isKept = process.argv.includes("--keep");
const channel = process.argv.includes("--experimental") ? "experimental" : "standard";
const named = process.argv.filter((argument) => profileFlags.includes(argument)).map((flag) => flag.slice(2));
const protocols = named.length === 0 ? ["http"] : named;
const report = join(repository, "docs", "conformance", `gateway-${protocols.join("-")}-${channel}-report.yaml`);
process.exitCode = await main(process.argv.slice(2).filter((argument) => !ownFlags.includes(argument)));

async function main(args: readonly string[]): Promise<number> {
  const logs = mkdtempSync(join(tmpdir(), "conformance-"));
  console.log(`logs are in ${logs}`);
  const plane = await startControlPlane({ controllers: true, advertiseAddress: nodeAddress(podPrefix) });
  const undo: (() => Promise<void>)[] = [() => plane.stop()];
  try {
    await install(plane);
    const checkout = await visibleFolder(repository, `checkout-${podPrefix}`);
    undo.push(() => checkout.remove());
    const main = join(repository, "proxy", "src", "main.ts");
    const proxy = `host:${checkout.pathOf(process.execPath)} ${checkout.pathOf(main)}`;
    const node = await startFakeNode(plane, { images: { [image]: proxy, ...suiteImages() }, podPrefix });
    undo.push(() => node.stop());
    const balancer = startLoadBalancer(plane, [usableAddress]);
    undo.push(() => balancer.close());
    const controller = await startController(plane, logs);
    undo.push(() => controller.stop());
    const status = await runSuite(plane, args, logs);
    if (isKept) await untilInterrupted(plane);
    return status;
  } finally {
    await plane.kubectl(["get", "events", "-A"]).then((text) => writeFileSync(join(logs, "events.txt"), text));
    for (const step of undo.toReversed()) await step();
  }
}

/** The images of the suite's own pods. */
function suiteImages(): Readonly<Record<string, string>> {
  return { "gateway-api/conformance/echo-basic": `chroot:${requireRigProgram("echo-basic")}` };
}

async function install(plane: ControlPlane): Promise<void> {
  const files = [gatewayApiCrds(channel), join(repository, "deploy", "crds")];
  await applyDefinitions((args) => plane.kubectl(args), files);
  await plane.kubectl(["apply", "--server-side", "-f", "-"], installation);
  await plane.kubectl(["apply", "--server-side", "-f", join(repository, "deploy", "rbac")]);
}

/** Under the ServiceAccount of an installation, so that the test covers its roles too. */
async function startController(plane: ControlPlane, logFolder: string): Promise<Daemon> {
  const account = "gateway-proxy-controller";
  const token = await plane.kubectl(["create", "token", account, "-n", namespace, "--duration=8h"]);
  const kubeconfig = join(logFolder, "controller.kubeconfig");
  const admin = readFileSync(plane.kubeconfig, "utf8");
  writeFileSync(kubeconfig, admin.replace("token: admin", `token: ${token.trim()}`), { mode: 0o600 });
  return new Daemon({
    name: "controller",
    command: process.execPath,
    args: [
      join(repository, "proxy", "src", "controller-main.ts"),
      ...["--proxy-image", `${image}:test`, "--proxy-replicas", "1", "--proxy-service-type", "LoadBalancer"],
      ...["--stats-address", "127.0.0.1:0", "--readiness-address", "127.0.0.1:0", "--namespace", namespace],
    ],
    logFolder,
    env: { ...process.env, KUBECONFIG: kubeconfig },
  });
}

/** At a signal the suite ends, and then everything else in order. */
function endAtSignal(kill: () => void): void {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, kill);
}

async function runSuite(plane: ControlPlane, args: readonly string[], logs: string): Promise<number> {
  mkdirSync(join(repository, "docs", "conformance"), { recursive: true });
  const { version } = JSON.parse(readFileSync(join(repository, "package.json"), "utf8")) as { version: string };
  const profiles = protocols.map((protocol) => `GATEWAY-${protocol.toUpperCase()}`);
  const whole = ["-conformance-profiles", profiles.join(","), `-supported-features=${supportedFeatures.join(",")}`];
  const project = ["-organization", "gatewayproxy", "-project", "gateway-proxy", "-url", "https://gatewayproxy.dev"];
  const suite = [
    ...["-test.run", "TestConformance", "-test.v", "-test.timeout", "60m", "-gateway-class", "gateway-proxy"],
    ...["-usable-address", usableAddress, "-unusable-address", unusableAddress],
    ...[...whole, ...project, "-version", `v${version}`, "-contact", "https://gatewayproxy.dev"],
    ...(args.length === 0 ? ["-report-output", report] : args),
  ];
  const log = join(logs, "suite.log");
  const child = spawn(requireRigProgram("conformance.test"), suite, {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, KUBECONFIG: plane.kubeconfig },
    // The suite looks for its files in the working directory.
    cwd: logs,
  });
  endAtSignal(() => child.kill("SIGKILL"));
  const output = createWriteStream(log);
  createInterface({ input: child.stdout }).on("line", (line) => {
    output.write(`${line}\n`);
    if (/^\s*--- (PASS|FAIL): TestConformance\/[^/]+ /.test(line)) console.log(line.trim());
  });
  const [code] = (await once(child, "close")) as [number | null];
  output.end();
  console.log(code === 0 ? "the suite passed" : `the suite failed; see ${log}`);
  return code ?? 1;
}

/** Keeps the cluster for inspection. */
async function untilInterrupted(plane: ControlPlane): Promise<void> {
  console.log(`export KUBECONFIG=${plane.kubeconfig}   # until Ctrl-C`);
  await new Promise<void>((resolve) => endAtSignal(resolve));
}
