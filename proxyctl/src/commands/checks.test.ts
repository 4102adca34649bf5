/** The commands that find errors, and the completion of command lines. */
import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { startKubeApi } from "../kube/testing/kube-api.ts";
import { startAdmin } from "../testing/admin.ts";
import { sampleDump } from "../testing/dump.ts";
import { proxyctl } from "../testing/run.ts";
import { clientVersion } from "../version.ts";

const noLimits = { at: "2026-11-21T10:00:00.000Z", counters: [], countersLeftOut: 0, services: [], learned: [] };

describe("doctor", () => {
  test("reports each finding with advice, and exits with 1", async () => {
    const admin = await startAdmin({ "GET /config_dump": sampleDump, "GET /limits": noLimits });
    const { exitCode, stdout } = await proxyctl(["doctor", "--address", admin.address]);
    expect(exitCode).toBe(1);
    await expect(stdout.replaceAll(String(admin.port), "PORT")).toMatchFileSnapshot("testdata/doctor.txt");
  });

  test("begins at the kubeconfig, and exits with 0 when nothing fails", async () => {
    const [bind] = sampleDump.binds;
    const [route] = sampleDump.routes;
    const dump = {
      ...sampleDump,
      config: { ...sampleDump.config, problems: [] },
      binds: [bind],
      gateways: sampleDump.gateways.slice(0, 1),
      conflicts: undefined,
      routes: [route],
      backends: sampleDump.backends.slice(0, 1),
      policies: sampleDump.policies.slice(0, 1),
    };
    const { port } = await startAdmin({ "GET /config_dump": dump, "GET /limits": noLimits });
    const api = await startKubeApi({
      gateways: [{ name: "web" }],
      pods: [{ name: "web-a", gateway: "web", ports: { 15_000: port } }],
    });
    const { exitCode, stdout } = await proxyctl(["doctor", "gateway/web", "--kubeconfig", api.kubeconfig]);
    await expect(stdout.replaceAll(api.url, "SERVER")).toMatchFileSnapshot("testdata/doctor-well.txt");
    expect(exitCode).toBe(0);
  });

  test("reports a provider that is out of quota", async () => {
    const backends = sampleDump.backends.filter(({ name }) => name === "openai" || name === "several");
    const admin = await startAdmin({ "GET /config_dump": { ...sampleDump, backends }, "GET /limits": noLimits });
    const { stdout } = await proxyctl(["doctor", "--address", admin.address]);
    expect(stdout).toMatch(/^warn +backends +2 providers without requests: Backend\/default\/openai is out of quota$/m);
  });

  test("reports failed workers, services that fail before they are unavailable, and all counters", async () => {
    const workerDeaths = [
      { worker: 1, count: 1, lastAt: "2026-11-21T09:00:00.000Z", lastCause: "old" },
      { worker: 2, count: 3, lastAt: "2026-11-21T09:59:00.000Z", lastCause: "JS heap out of memory" },
    ];
    const service = {
      ...{ service: "address/rl:8081", breaker: "closed", openOn: 0, workers: 2, since: "2026-11-21T09:00:00.000Z" },
      ...{ lastError: { message: "unknown domain", at: "2026-11-21T09:59:58.000Z" }, failuresInARow: 3 },
      ...{ chargesBuffered: 0, denialsCached: 0, limitsLearned: 0 },
    };
    const counter = {
      ...{ policy: "default/p", entry: 0, target: "HTTPRoute/default/r", source: "local", counts: "requests" },
      ...{ unit: "Hours", mode: "Enforce", limit: 1, used: 1, remaining: 0, resetSeconds: 9 },
    };
    const admin = await startAdmin({
      "GET /config_dump": { ...sampleDump, config: { ...sampleDump.config, workerDeaths } },
      "GET /limits": { ...noLimits, counters: [counter], countersLeftOut: 1_500, services: [service] },
    });
    const { stdout } = await proxyctl(["doctor", "--address", admin.address]);
    const found = (check: string) => stdout.split("\n").find((line) => line.slice(7).startsWith(check));
    expect(found("workers")).toBe(
      "warn   workers               2 run; 4 failures since the start, the last of worker 2 at 2026-11-21T09:59:00.000Z: JS heap out of memory",
    );
    expect(found("counters")).toBe(
      "warn   counters              at least 1 of 1501 are used up and deny requests, such as default/p#0",
    );
    expect(found("rate limit services")).toBe(
      "warn   rate limit services   address/rl:8081: 3 calls failed in a row: unknown domain",
    );
  });

  test.each([
    [
      "that are saved",
      {},
      "ok     saved counters        /state: saved until 2026-11-21T09:59:59.500Z, 4096 bytes",
      undefined,
    ],
    [
      "that were not saved for a time",
      { failures: 2, lastError: { message: "ENOSPC", at: "2026-11-21T08:00:00.000Z" } },
      "ok     saved counters        /state: saved until 2026-11-21T09:59:59.500Z, 4096 bytes; failed until 2026-11-21T08:00:00.000Z: ENOSPC",
      undefined,
    ],
    [
      "that are not saved",
      {
        ...{ isFailing: true, failures: 3, bytes: 0, savedUntil: "2026-11-21T09:00:00.000Z" },
        lastError: { message: "ENOSPC: no space left on device", at: "2026-11-21T09:59:58.000Z" },
      },
      "fail   saved counters        /state: saved until 2026-11-21T09:00:00.000Z; 3 attempts failed since the start, the last: ENOSPC: no space left on device",
      "check the free space and the permissions of the directory; attempts are repeated, and a restart loses the rest",
    ],
    [
      "that are saved too late",
      { savedUntil: "2026-11-21T09:59:50.000Z" },
      "warn   saved counters        /state: saved until 2026-11-21T09:59:50.000Z, 4096 bytes",
      "check the load of the node and the latency of the disk",
    ],
  ])("reports counters %s", async (_, fields, finding, advice) => {
    const savedUntil = "2026-11-21T09:59:59.500Z";
    const state = { directory: "/state", savedUntil, bytes: 4_096, isFailing: false, failures: 0, ...fields };
    const admin = await startAdmin({ "GET /config_dump": sampleDump, "GET /limits": { ...noLimits, state } });
    const { stdout } = await proxyctl(["doctor", "--address", admin.address]);
    const lines = stdout.split("\n");
    const at = lines.findIndex((line) => line.slice(7).startsWith("saved counters"));
    expect(lines[at]).toBe(finding);
    if (advice !== undefined) expect(lines[at + 1]).toBe(`${" ".repeat(29)}→ ${advice}`);
  });

  test("stops at the first check that fails", async () => {
    const api = await startKubeApi({ gateways: [] });
    const { exitCode, stdout } = await proxyctl(["doctor", "gateway/web", "--kubeconfig", api.kubeconfig]);
    expect(exitCode).toBe(1);
    await expect(stdout.replaceAll(api.url, "SERVER")).toMatchFileSnapshot("testdata/doctor-no-gateway.txt");
  });
});

describe("validate", () => {
  const good = `apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: a }
spec: { static: { host: a.example.com, port: 80 } }
`;

  test("exits with 0 when there is no problem", async () => {
    expect(await proxyctl(["validate", "-f", "-"], { input: good })).toEqual({
      exitCode: 0,
      stdout: "",
      stderr: "1 resource read, no problems\n",
    });
  });

  test("reports each problem with its place, and exits with 1", async () => {
    const run = await proxyctl(["validate", "-f", "-"], { input: good.replace("port: 80", "prt: 80") });
    expect(run).toMatchObject({ exitCode: 1, stderr: "no resources read, 2 problems\n" });
    await expect(run.stdout).toMatchFileSnapshot("testdata/validate.txt");
  });

  const lone = `apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: p }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: gone }]
  traffic: { rateLimit: { local: [{ requests: 1, unit: Minutes }] } }
`;

  test("warns of references of a single file to missing objects, and rejects them with --strict", async () => {
    const run = await proxyctl(["validate", "-f", "-"], { input: lone });
    expect(run.exitCode).toBe(0);
    expect(run.stdout).toMatch(
      /^warning: standard input:5:\d+ ProxyPolicy default\/p spec\.targetRefs\[0\]: HTTPRoute default\/gone does not exist\n$/,
    );
    expect(run.stderr).toBe(
      "1 resource read, no problems, 1 warning\n" +
        "  missing objects may be in another file or in the cluster: give the whole folder, or --strict to reject them\n",
    );
    const strict = await proxyctl(["validate", "-f", "-", "--strict"], { input: lone });
    expect(strict).toMatchObject({ exitCode: 1, stderr: "1 resource read, 1 problem\n" });
    expect(strict.stdout).toMatch(/^standard input:5:\d+ ProxyPolicy/);
    const alone = await proxyctl(["validate", "-f", "-", "--no-references"], { input: lone });
    expect(alone).toEqual({ exitCode: 0, stdout: "", stderr: "1 resource read, no problems\n" });
  });

  test("warns of every kind of reference that leads out of a lone file, and of what follows from it", async () => {
    const route = (name: string, gateway: string, refs: string) => `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: ${name} }
spec: { parentRefs: [{ name: ${gateway} }], rules: [{ backendRefs: [${refs}] }] }
`;
    const policy = (name: string, kind: string, target: string, limit: string) => `apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: ${name} }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: ${kind}, name: ${target} }]
  traffic: { rateLimit: { ${limit} } }
`;
    const local = "local: [{ requests: 1, unit: Minutes }]";
    const global = `global: { backendRef: { name: rl, port: 81 }, domain: a, descriptors: [{ entries: [{ name: a, expression: '"x"' }] }] }`;
    const input = [
      route("a", "gone", "{ name: s, port: 80 }, { name: s, namespace: other, port: 80 }"),
      policy("a", "HTTPRoute", "a", local),
      route("b", "web", "{ group: gatewayproxy.dev, kind: Backend, name: llm }"),
      policy("web", "Gateway", "web", global),
      `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web }
spec:
  gatewayClassName: gateway-proxy
  listeners: [{ name: https, port: 443, protocol: HTTPS, tls: { certificateRefs: [{ name: cert }] } }]
`,
      `apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm }
spec: { ai: { provider: { openai: {} }, auth: { secretRef: { name: key } } } }
`,
      `apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: { name: tls }
spec: { targetRefs: [{ group: "", kind: Service, name: s }], validation: { hostname: s.example, wellKnownCACertificates: System } }
`,
    ].join("---\n");
    const run = await proxyctl(["validate", "-f", "-", "-o", "json"], { input });
    // What the command writes as JSON.
    const found = JSON.parse(run.stdout) as { problems: unknown[]; warnings: { resource: string; message: string }[] };
    expect({ exitCode: run.exitCode, problems: found.problems }).toEqual({ exitCode: 0, problems: [] });
    expect(found.warnings.map(({ resource, message }) => `${resource}: ${message}`).sort()).toMatchSnapshot();
  });

  test("does not report invalid objects as missing", async () => {
    const input = `${lone}---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: gone }
spec: { parentRefs: [{ name: web }], rules: [{ backendRefs: [{ group: x.example, kind: Y, name: z }] }] }
`;
    const run = await proxyctl(["validate", "-f", "-"], { input });
    expect(run.exitCode).toBe(1);
    expect(run.stdout).toMatch(/^standard input:\d+:\d+ HTTPRoute default\/gone spec\.rules\[0\]\.backendRefs\[0\]/m);
  });

  test("says of a file that is no manifest just that", async () => {
    const run = await proxyctl(["validate", "-f", "README.md"]);
    expect(run).toMatchObject({ exitCode: 2, stdout: "" });
    expect(run.stderr).toMatch(
      /^error: validate README\.md: it is not a manifest: README\.md:\d+:\d+: invalid YAML: .*\n {2}name a file/,
    );
    expect(run.stderr.split("\n")).toHaveLength(3);
  });

  test("reports only the first error of invalid YAML, since the others follow from it", async () => {
    const run = await proxyctl(["validate", "-f", "-"], {
      input: "kind: Backend\n\tmetadata: { name: a }\n- spec: {\n",
    });
    expect(run.exitCode).toBe(1);
    expect(run.stdout.split("\n")).toHaveLength(2);
  });

  test.each([
    ["nothing", ""],
    ["kinds of others", "apiVersion: v1\nkind: Pod\nmetadata: { name: a }\n"],
  ])("does not pass if there is nothing to validate: %s", async (_, input) => {
    const run = await proxyctl(["validate", "-f", "-"], { input });
    expect(run).toMatchObject({ exitCode: 2, stdout: "" });
    expect(run.stderr).toContain("validate -: it has no resource of a kind that the proxy reads");
  });

  test("asks for what to validate", async () => {
    expect(await proxyctl(["validate"])).toMatchObject({
      exitCode: 64,
      stderr: "error: required option '-f, --file <path>' not specified\n",
    });
  });

  test("takes the folders that the proxy takes", async () => {
    const run = await proxyctl(["validate", "-f", "examples/quickstart", "-o", "json"]);
    expect(JSON.parse(run.stdout)).toEqual({ resources: 4, problems: [], warnings: [] });
    const gone = await proxyctl(["validate", "-f", "/nowhere"]);
    expect(gone.exitCode).toBe(2);
  });
});

describe("completion", () => {
  test.each([
    ["a command", ["con"], ["config", "convert"]],
    ["a command below it", ["config", ""], ["all", "backends", "routes", "policies", "dump"]],
    ["a resource", ["config", "all", "ga"], ["gateway/"]],
    ["a flag", ["trace", "--ad"], ["--admin-port", "--admin-token", "--admin-token-file", "--address"]],
    ["a value of a flag", ["config", "all", "-o", ""], ["table", "wide", "json", "yaml"]],
    ["an argument of few words", ["completion", "z"], ["zsh"]],
    ["nothing where anything may stand", ["config", "all", "-n", ""], []],
  ])("completes %s", async (_name, words, expected) => {
    const { stdout } = await proxyctl(["__complete", "--", ...words]);
    expect(
      stdout
        .split("\n")
        .filter((word) => word !== "")
        .sort(),
    ).toEqual([...expected].sort());
  });

  test("prints a script per shell, of which bash takes its own", async () => {
    const script = (await proxyctl(["completion", "bash"])).stdout;
    expect(execFileSync("bash", ["-n"], { input: script }).toString()).toBe("");
    expect((await proxyctl(["completion", "zsh"])).stdout).toContain("compdef _proxyctl proxyctl");
    expect((await proxyctl(["completion", "fish"])).stdout).toContain("complete -c proxyctl");
    expect((await proxyctl(["completion", "tcsh"])).exitCode).toBe(64);
  });
});

describe("version", () => {
  test("prints the version of proxyctl without a request", async () => {
    const { exitCode, stdout } = await proxyctl(["version", "--client"]);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^client {3}\d+\.\d+\.\d+ {3}node \d+\.\d+\.\d+\n$/);
  });

  test("prints the version of proxyctl also if no proxy can be reached, and exits with 2", async () => {
    const table = await proxyctl(["version", "--kubeconfig", "/nowhere"]);
    expect(table.exitCode).toBe(2);
    expect(table.stdout).toMatch(/^client {3}\d+\.\d+\.\d+ {3}node \S+\n$/);
    expect(table.stderr).toContain("error: read /nowhere: ");
    const json = await proxyctl(["version", "--address", "127.0.0.1:1", "-o", "json"]);
    expect(json.exitCode).toBe(2);
    expect(JSON.parse(json.stdout)).toEqual({ client: { version: clientVersion, node: process.versions.node } });
  });

  test("prints the version of the proxy", async () => {
    const admin = await startAdmin({ "GET /config_dump": sampleDump });
    const { stdout } = await proxyctl(["version", "--address", admin.address]);
    expect(stdout).toContain(`server   0.1.0   node 26.10.0, linux-x64   ${admin.address}\n`);
  });
});
