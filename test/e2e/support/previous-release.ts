/** The previous release, built from the history of the repository: its chart as a package, its images in the node. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { attempt, cluster, helm } from "./cluster.ts";

const repository = join(import.meta.dirname, "../../..");

/** The first commit that can be installed, in place of a release as long as there is none. */
const firstInstallable = "8ac175a2e593267e7a417bf1e5a4f80f98bed529";

const registry = process.env["IMAGE_REGISTRY"] ?? "localhost/gateway-proxy";
/** Image, and its target in the Dockerfile. */
const images = [
  ["gateway-proxy", "proxy"],
  ["ratelimit-service", "ratelimit-service"],
] as const;

export interface PreviousRelease extends Disposable {
  readonly version: string;
  /** Path of the packaged chart. */
  readonly chart: string;
  /** Arguments for helm that set the images, which have the registry of all others. */
  readonly imageArgs: readonly string[];
}

/** The commit of the last tagged release; undefined if a shallow clone does not contain it. */
export async function findPreviousRelease(): Promise<string | undefined> {
  const tag = await attempt("git", ["-C", repository, "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^"]);
  const name = tag.code === 0 ? tag.stdout.trim() : firstInstallable;
  const found = await attempt("git", ["-C", repository, "rev-parse", "--verify", "--quiet", `${name}^{commit}`]);
  return found.code === 0 ? found.stdout.trim() : undefined;
}

/** Checks a release out, packages its chart and builds its images, which stay in docker for the next run. */
export async function preparePreviousRelease(commit: string): Promise<PreviousRelease> {
  const version = `0.0.0-${commit.slice(0, 12)}`;
  const folder = mkdtempSync(join(tmpdir(), "previous-release-"));
  const sources = join(folder, "sources");
  mkdirSync(sources);
  execFileSync("bash", ["-o", "pipefail", "-c", 'git archive "$0" | tar --extract -C "$1"', commit, sources], {
    cwd: repository,
  });
  const versions = ["--version", version, "--app-version", version];
  await helm(["package", join(sources, "deploy/helm/gateway-proxy"), ...versions, "--destination", folder]);
  for (const [image, target] of images) await loadImage(`${registry}/${image}:${version}`, target, sources);
  return {
    version,
    chart: join(folder, `gateway-proxy-${version}.tgz`),
    imageArgs: ["controller", "rateLimitService"].flatMap((part) => ["--set", `${part}.image.tag=${version}`]),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function loadImage(reference: string, target: string, sources: string): Promise<void> {
  if ((await attempt("docker", ["image", "inspect", reference])).code !== 0) {
    const base = process.env["NODE_IMAGE"];
    const baseArgs = base === undefined ? [] : ["--build-arg", `NODE_IMAGE=${base}`];
    await run("docker", ["build", "--network", "host", "--target", target, ...baseArgs, "--tag", reference, sources]);
  }
  await run("kind", ["load", "docker-image", reference, "--name", cluster]);
}

async function run(program: string, args: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await attempt(program, args);
  if (code !== 0) throw new Error(`${program} ${args.join(" ")}: ${stderr}${stdout}`);
}
