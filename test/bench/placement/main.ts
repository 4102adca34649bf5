/**
 * `npm run bench:placement`: the rate limit service in separate pods and as a sidecar, in the cluster of
 * scripts/kind-up.sh. Each round measures every placement, with one proxy and one service, and prints the medians as a
 * table for docs/global-limits.md.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { changeChartValues } from "../../e2e/support/chart-values.ts";
import { send, testPort } from "../../e2e/support/client.ts";
import {
  apply,
  createNamespace,
  eventually,
  kubectl,
  type KubeObject,
  list,
  readyProxies,
  systemNamespace,
} from "../../e2e/support/cluster.ts";
import { gateway, grantService, llm, policy, route, service } from "../../e2e/support/manifests.ts";
import { requireProgram } from "../../support/programs.ts";
import { percentile } from "../statistics.ts";

const namespace = "bench-placement";
const rounds = 3;
const seconds = 5;
const loads = [1, 32] as const;
/** A limit that no load reaches. */
const descriptors = [{ key: "user", rate_limit: { unit: "hour", requests_per_unit: 4_000_000_000 } }];

interface Placement {
  readonly name: string;
  readonly values: readonly string[];
  /** Members of the policy that refer to the service. */
  readonly reference: object;
  /** Namespace and label of the pods of the service, and its port for metrics. */
  readonly pods: readonly [namespace: string, label: string, metricsPort: number];
}

const proxyLabel = "gateway.networking.k8s.io/gateway-name=bench";
const sidecar = { reference: { address: "127.0.0.1:15081" }, pods: [namespace, proxyLabel, 15_084] } as const;
const inMemory = "redis.enabled=false";
const placements: readonly Placement[] = [
  {
    name: "Deployment, Redis",
    values: ["rateLimitService.mode=Deployment"],
    reference: { backendRef: service },
    pods: [systemNamespace, "app.kubernetes.io/component=ratelimit-service", 9_090],
  },
  { name: "sidecar, Redis", values: ["rateLimitService.mode=Sidecar"], ...sidecar },
  { name: "sidecar, in memory", values: ["rateLimitService.mode=Sidecar", inMemory], ...sidecar },
];

/** The results of one load on one placement. */
interface Sample {
  readonly requestMs: number;
  readonly callMs: number;
  readonly proxyCpuUs: number;
  readonly serviceCpuUs: number;
}

async function measurePlacement({ values, reference, pods }: Placement): Promise<readonly Sample[]> {
  const config = JSON.stringify({ "bench.yaml": { domain: "bench", descriptors } });
  await using disposed = new AsyncDisposableStack();
  const change = await changeChartValues([
    ...["rateLimitService.replicas=1", "rateLimitService.podDisruptionBudget.enabled=false", ...values].flatMap(
      (value) => ["--set", value],
    ),
    ...["--set-json", `rateLimitService.config=${config}`],
  ]);
  disposed.use(change);
  disposed.use(await createNamespace(namespace));
  const entries = [{ name: "user", expression: "'all'" }];
  const global = { ...reference, domain: "bench", timeout: "1s", descriptors: [{ entries }] };
  await apply(systemNamespace, grantService(namespace));
  await apply(namespace, llm, ...gateway("bench", { replicas: 1 }), route("all", "bench"));
  await apply(namespace, policy("all", { kind: "HTTPRoute", name: "all" }, { global }));
  // A kubelet updates the files of a ConfigMap within two minutes.
  await eventually("the service decides", isLimited, { timeoutMs: 180_000 });
  const [proxy] = await readyProxies(namespace, "bench");
  const [podNamespace, label, port] = pods;
  const [servicePod] = await list("pods", "-n", podNamespace, "-l", label, "--field-selector", "status.phase=Running");
  if (proxy === undefined || servicePod === undefined) throw new Error("there is no proxy, or no service");
  await applyLoad(loads[1]);
  const samples: Sample[] = [];
  for (const connections of loads) {
    const before = [
      await metricsOf(namespace, proxy, 15_020),
      await metricsOf(podNamespace, servicePod, port),
    ] as const;
    const requestMs = await applyLoad(connections);
    const after = [await metricsOf(namespace, proxy, 15_020), await metricsOf(podNamespace, servicePod, port)] as const;
    const calls = increase(before[0], after[0], "gateway_proxy_global_limit_call_duration_seconds_count");
    const callSeconds = increase(before[0], after[0], "gateway_proxy_global_limit_call_duration_seconds_sum");
    samples.push({
      requestMs,
      callMs: (callSeconds / calls) * 1_000,
      proxyCpuUs: (increase(before[0], after[0], "process_cpu_seconds_total") / calls) * 1e6,
      serviceCpuUs: (increase(before[1], after[1], "process_cpu_seconds_total") / calls) * 1e6,
    });
  }
  return samples;
}

async function isLimited(): Promise<true | undefined> {
  const { headers } = await send({ path: "/v1/models" });
  return String(headers["x-ratelimit-limit"]).startsWith("4000000000") ? true : undefined;
}

/** Loads the Gateway. Returns the mean time of a request in milliseconds. */
async function applyLoad(connections: number): Promise<number> {
  const url = `http://127.0.0.1:${testPort.host}/v1/models`;
  const args = ["-t1", `-c${connections}`, `-d${seconds}s`, "-H", "Host: e2e.example", url];
  const { stdout } = await promisify(execFile)(requireProgram("wrk"), args);
  if (/Non-2xx|Socket errors/.test(stdout)) throw new Error(`requests failed:\n${stdout}`);
  const requests = Number(/^\s*(\d+) requests in/m.exec(stdout)?.[1]);
  return (connections * seconds * 1_000) / requests;
}

function metricsOf(podNamespace: string, { metadata }: KubeObject, port: number): Promise<string> {
  return kubectl(["get", "--raw", `/api/v1/namespaces/${podNamespace}/pods/${metadata.name}:${port}/proxy/metrics`]);
}

/** The increase of all series of a metric together. */
function increase(before: string, after: string, name: string): number {
  const total = (text: string) =>
    text
      .split("\n")
      .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
  return total(after) - total(before);
}

const samples = new Map<string, Sample[]>();
for (let round = 0; round < rounds; round++) {
  for (const placement of placements) {
    for (const [at, sample] of (await measurePlacement(placement)).entries()) {
      const key = `${placement.name} | ${loads[at]}`;
      samples.set(key, [...(samples.get(key) ?? []), sample]);
    }
    process.stderr.write(`${placement.name}: round ${round + 1} of ${rounds}\n`);
  }
}
const columns: readonly (readonly [heading: string, of: (sample: Sample) => number])[] = [
  ["ms of a call", ({ callMs }) => callMs],
  ["ms of a request", ({ requestMs }) => requestMs],
  ["CPU µs of the proxy", ({ proxyCpuUs }) => proxyCpuUs],
  ["CPU µs of the service", ({ serviceCpuUs }) => serviceCpuUs],
];
console.log(`| service | connections | ${columns.map(([heading]) => heading).join(" | ")} |`);
console.log(`| --- | --: | ${columns.map(() => "--:").join(" | ")} |`);
for (const [key, values] of samples) {
  console.log(
    `| ${key} | ${columns.map(([, of]) => Number(percentile(values.map(of), 50).toPrecision(2))).join(" | ")} |`,
  );
}
await kubectl(["-n", systemNamespace, "delete", "referencegrant", namespace, "--ignore-not-found"]);
