/** The scripts around kind, as far as they run without a cluster: their messages if something is missing. */
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/describe-with.ts";

const repository = join(import.meta.dirname, "../..");

/** The paths of the programs that the scripts need on any machine. */
const basics = ["bash", "basename", "cat", "dirname", "env", "grep", "id", "mkdir", "sed"].map((name) => {
  const candidates = (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, name));
  const found = candidates.find((candidate) => existsSync(candidate));
  if (found === undefined) throw new Error(`${name} is not on the PATH`);
  return { name, found };
});

/** A folder that is the whole PATH: the basics, and `programs` with the given texts. */
function pathWith(programs: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "kind-scripts-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const { name, found } of basics) symlinkSync(found, join(folder, name));
  for (const [name, text] of Object.entries(programs)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(folder, name), 0o755);
  }
  return folder;
}

function run(
  script: string,
  programs: Readonly<Record<string, string>>,
  args: readonly string[] = [],
  under: readonly string[] = ["/usr/bin/env"],
) {
  const folder = pathWith(programs);
  const [command = "", ...rest] = [...under, join(repository, "scripts", script), ...args];
  const { status, stdout, stderr } = spawnSync(command, rest, {
    env: { PATH: folder, KUBE_RIG_HOME: join(folder, "rig") },
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

const all = { docker: "exit 0", kind: "exit 0", kubectl: "exit 0", helm: "exit 0" };

describe("kind-up.sh", () => {
  test.each([
    { missing: "docker", where: "https://docs.docker.com/get-docker/" },
    { missing: "kind", where: "https://kind.sigs.k8s.io/" },
    { missing: "kubectl", where: "https://kubernetes.io/docs/tasks/tools/" },
    { missing: "helm", where: "https://helm.sh/docs/intro/install/" },
  ])("reports that $missing is missing and where to get it, before any step", ({ missing, where }) => {
    const programs = Object.fromEntries(Object.entries(all).filter(([name]) => name !== missing));
    const { status, stdout, stderr } = run("kind-up.sh", programs);
    expect(status).toBe(1);
    expect(stderr).toContain(`error: ${missing} is not on the PATH; install it from ${where}`);
    expect(stdout).toBe("");
  });

  test("distinguishes a docker that does not respond from a missing one", () => {
    const { status, stderr } = run("kind-up.sh", { ...all, docker: "exit 1" });
    expect(status).toBe(1);
    expect(stderr).toContain("error: docker does not respond; start it");
  });

  test("shows the output of a failed program, and its name", () => {
    const { status, stderr } = run("kind-up.sh", { ...all, kind: '[ "$1" = get ] || { echo "no room"; exit 1; }' });
    expect(status).toBe(1);
    expect(stderr).toMatch(/^no room\nerror: failed: kind create cluster --name gateway-proxy /);
  });

  test("says how to replace a cluster whose API server does not respond", () => {
    const { status, stdout, stderr } = run("kind-up.sh", {
      ...all,
      kind: '[ "$1" != get ] || echo gateway-proxy',
      kubectl: "exit 1",
    });
    expect(status).toBe(1);
    expect(stdout).toContain("cluster gateway-proxy is there\n");
    expect(stderr).toBe(
      "error: the API server of cluster gateway-proxy does not respond; scripts/kind-up.sh --replace deletes the cluster and creates a new one\n",
    );
  });

  test("replaces a cluster whose API server does not respond", () => {
    const kind =
      '[ "$1" = get ] || echo "$1" >>"$0.calls"; case $1 in get) [ -e "$0.calls" ] || echo gateway-proxy ;; create) cat "$0.calls" >&2; exit 1 ;; esac';
    const { stdout, stderr } = run("kind-up.sh", { ...all, kind, kubectl: "exit 1" }, ["--replace"]);
    expect(stdout).toContain("delete cluster gateway-proxy\n");
    expect(stderr).toMatch(/^delete\ncreate\nerror: failed: kind create cluster --name gateway-proxy /);
  });

  test("sets the context of kubectl to that of an existing cluster", () => {
    const kind = 'case $1 in get) echo gateway-proxy ;; export) echo "exports $*" >&2; exit 1 ;; esac';
    const { stderr } = run("kind-up.sh", { ...all, kind });
    expect(stderr).toContain("exports export kubeconfig --name gateway-proxy\n");
  });

  test("leaves no partial cluster behind if it is interrupted", () => {
    const kind = 'case $1 in create) kill -INT 0 ;; delete) echo "$*" >&2 ;; esac';
    // In its own process group, as in a terminal.
    const { status, stderr } = run("kind-up.sh", { ...all, kind }, [], ["/usr/bin/setsid", "--wait"]);
    expect(status).not.toBe(0);
    expect(stderr).toContain("delete cluster --name gateway-proxy\n");
  });
});

describe("kind-load.sh", () => {
  test("reports that there is no cluster, and the command that creates one", () => {
    const { status, stderr } = run("kind-load.sh", all);
    expect(status).toBe(1);
    expect(stderr).toBe("error: there is no cluster gateway-proxy; run scripts/kind-up.sh\n");
  });

  test("lists the existing images", () => {
    const { status, stderr } = run("kind-load.sh", { ...all, kind: "echo gateway-proxy" }, ["proxy"]);
    expect(status).toBe(1);
    expect(stderr).toBe("error: there is no image proxy, but these: gateway-proxy ratelimit-service mock-llm\n");
  });
});

describe("kind-down.sh", () => {
  test("removes nothing if there is no cluster", () => {
    const { status, stdout } = run("kind-down.sh", all);
    expect(status).toBe(0);
    expect(stdout).toContain("there is no cluster gateway-proxy\n");
  });
});

describe("rig.sh check", () => {
  test("reports that docker is not available, so that skipped tests are not mistaken for passed ones", () => {
    const { status, stdout } = run("../test/rig/kind/rig.sh", {}, ["check"]);
    expect(status).toBe(1);
    expect(stdout).toContain("docker is not installed\n");
    expect(stdout).toContain("docker does not run and cannot be started\n");
  });
});

const services = "accepted are ours, envoyproxy, envoy-gateway and limitador";

test.each([
  { script: "kind-down.sh", args: ["--ofline"], says: "usage: scripts/kind-down.sh [--offline]" },
  {
    script: "kind-up.sh",
    args: ["--ofline"],
    says: "--ofline is not known; accepted are --offline, --replace, --limit-service NAME and --help",
  },
  { script: "kind-up.sh", args: ["--limit-service"], says: `the rate limit service is ''; ${services}` },
  { script: "kind-up.sh", args: ["--limit-service=redis"], says: `the rate limit service is 'redis'; ${services}` },
  { script: "kind-limit-service.sh", args: ["redis"], says: `the rate limit service is 'redis'; ${services}` },
  {
    script: "kind-limit-service.sh",
    args: ["envoyproxy"],
    says: "there is no cluster gateway-proxy; run scripts/kind-up.sh",
  },
])("$script $args fails and says what is accepted", ({ script, args, says }) => {
  expect(run(script, all, args)).toEqual({ status: 1, stdout: "", stderr: `error: ${says}\n` });
});

test.each(["kind-up.sh", "kind-limit-service.sh"])("%s --help lists its rate limit services", (script) => {
  const { status, stdout } = run(script, all, ["--help"]);
  expect(status).toBe(0);
  for (const name of ["ours", "envoyproxy", "envoy-gateway", "limitador"]) expect(stdout).toContain(name);
});

test("kind-up.sh reports offline that the image of Limitador cannot be pulled", () => {
  const programs = { ...all, docker: '[ "$1" != image ]' };
  const { status, stderr } = run("kind-limit-service.sh", { ...programs, kind: "echo gateway-proxy" }, [
    "--offline",
    "limitador",
  ]);
  expect(status).toBe(1);
  expect(stderr).toContain(
    "needs the image quay.io/kuadrant/limitador:v2.2.0, which is not here and cannot be pulled offline",
  );
});

describeWith(["shellcheck"], "shell scripts", ({ shellcheck }) => {
  test("pass shellcheck", () => {
    const tracked = execFileSync("git", ["ls-files", "-s", "*.sh", ".ci/run"], { cwd: repository, encoding: "utf8" });
    // The executable ones; files that they source are checked with them.
    const scripts = [...tracked.matchAll(/^100755 .*\t(.+)$/gm)].flatMap((match) => match[1] ?? []);
    expect(scripts.length).toBeGreaterThan(5);
    const { stdout, stderr } = spawnSync(shellcheck, ["--external-sources", "--check-sourced", ...scripts], {
      cwd: repository,
      encoding: "utf8",
    });
    expect(stdout + stderr).toBe("");
  });
});
