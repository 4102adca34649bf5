/**
 * Creates the cluster for a run and deletes it afterwards. An existing cluster is used and kept, except with `CI=true`:
 * there it is left over from an interrupted run, and is replaced. With `KIND_OFFLINE=true`, no image is pulled
 * (test/rig/kind).
 */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { cluster } from "./cluster.ts";

const repository = join(import.meta.dirname, "../../..");
const offline = process.env["KIND_OFFLINE"] === "true" ? ["--offline"] : [];

let wasThere = false;

export function setup(): void {
  if (offline.length > 0) takeRigEnvironment();
  const replace = process.env["CI"] === "true" ? ["--replace"] : [];
  wasThere = replace.length === 0 && clusterExists();
  run("scripts/kind-up.sh", [...offline, ...replace]);
  if (offline.length === 0) return;
  // If the rig has started docker, its socket is known only now.
  takeRigEnvironment();
  run("test/rig/kind/rig.sh", ["tests"]);
  for (const image of ["ENVOY_IMAGE", "REFERENCE_RATELIMIT_IMAGE", "JAEGER_IMAGE"]) {
    execFileSync("kind", ["load", "docker-image", process.env[image] ?? "", "--name", cluster], {
      stdio: ["ignore", "ignore", "inherit"],
    });
  }
}

export function teardown(): void {
  if (!wasThere) run("scripts/kind-down.sh", offline);
}

function run(script: string, args: readonly string[]): void {
  execFileSync(join(repository, script), args, { cwd: repository, stdio: ["ignore", "inherit", "inherit"] });
}

/** Test workers inherit it. */
function takeRigEnvironment(): void {
  const print = 'eval "$(test/rig/kind/rig.sh env)"; env -0';
  const lines = execFileSync("bash", ["-c", print], { cwd: repository, encoding: "utf8" }).split("\0");
  for (const line of lines) {
    const [name = "", ...value] = line.split("=");
    if (name !== "" && name !== "_") process.env[name] = value.join("=");
  }
}

function clusterExists(): boolean {
  try {
    const clusters = execFileSync("kind", ["get", "clusters"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return clusters.split("\n").includes(cluster);
  } catch {
    return false;
  }
}
