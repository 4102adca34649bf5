/**
 * A Node without containers: pods that the scheduler binds to it run as local programs, each pod in a network namespace
 * with its own address (`modules/conformance/cmd/fakekubelet`). The image map lists the program for each image. Needs
 * root and Linux.
 */
import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { requireRigProgram, rigHome } from "./binaries.ts";
import type { ControlPlane } from "./control-plane.ts";
import { Daemon, run } from "./daemon.ts";

export interface FakeNodeOptions {
  /**
   * The program for each image name without its tag: `chroot:BINARY` is a single static binary, `host:COMMAND` a
   * command of this machine in the pod's network, with its environment and volumes. The container's args are appended.
   */
  readonly images: Readonly<Record<string, string>>;
  /** First two octets of the pod network, a /16; two nodes on one machine need two. */
  readonly podPrefix: string;
}

/** The address of the node, at which pods reach the API server: pass it as the plane's advertised address. */
export function nodeAddress(podPrefix: string): string {
  return `${podPrefix}.0.1`;
}

/** Starts the node and resolves when it is Ready. */
export async function startFakeNode(
  plane: ControlPlane,
  { images, podPrefix }: FakeNodeOptions,
): Promise<{ stop(): Promise<void> }> {
  const map = join(plane.folder, "images.map");
  writeFileSync(
    map,
    Object.entries(images)
      .map(([image, program]) => `${image} ${program}\n`)
      .join(""),
  );
  const server = plane.authority.issue("kubelet", "DNS:node1", `IP:${nodeAddress(podPrefix)}`);
  // Not below /tmp, where pods may mount their own volume.
  const pods = join(rigHome(), "run", `pods-${podPrefix}`);
  const bridge = `br-rig${podPrefix.split(".")[1] ?? ""}`;
  const node = new Daemon({
    name: "fakekubelet",
    command: requireRigProgram("fakekubelet"),
    logFolder: plane.folder,
    args: [
      ...["-kubeconfig", plane.kubeconfig, "-images", map, "-dir", pods],
      ...["-bridge", bridge, "-pod-prefix", podPrefix, "-api", `127.0.0.1:${plane.apiPort}`],
      ...["-cert", server.certFile, "-key", server.keyFile, "-client-ca", plane.authority.authority.certFile],
    ],
  });
  const forwarding = await permitPodTraffic(bridge);
  const readiness = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}';
  await node.waitUntil(async () => (await plane.kubectl(["get", "node", "node1", "-o", readiness])) === "True");
  return {
    async stop() {
      // It removes the pods' programs and networks, which a killed one would leave behind.
      await node.stop(15_000);
      await forwarding.undo();
      await rm(pods, { recursive: true, force: true });
    },
  };
}

/** Docker filters packets between the ports of every bridge, and drops them unless a rule permits them. */
async function permitPodTraffic(bridge: string): Promise<{ undo(): Promise<void> }> {
  const rule = ["FORWARD", "-i", bridge, "-o", bridge, "-j", "ACCEPT"];
  const isFiltered = await run("iptables", ["-w", "-I", ...rule]).then(
    () => true,
    () => false, // without iptables there is no filter
  );
  return {
    async undo() {
      if (isFiltered) await run("iptables", ["-w", "-D", ...rule]);
    },
  };
}
