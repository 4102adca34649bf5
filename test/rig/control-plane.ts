/**
 * A Kubernetes control plane on free ports of 127.0.0.1: etcd and kube-apiserver, and on request the real
 * kube-controller-manager and kube-scheduler. Each starts with an empty cluster and leaves nothing behind. There is no
 * node; `fake-node.ts` adds one.
 */
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TestAuthority } from "../support/certificates.ts";
import { freePort } from "../support/free-port.ts";
import { requireProgram } from "../support/programs.ts";
import { requireRigProgram } from "./binaries.ts";
import { Daemon, run } from "./daemon.ts";

export interface ControlPlaneOptions {
  /** Whether the real controllers and the scheduler run: some seconds more at the start. */
  readonly controllers?: boolean;
  /**
   * The address that the API server advertises, which pods of a fake node use. It need not exist: the server listens on
   * 127.0.0.1.
   */
  readonly advertiseAddress?: string;
  /** Whether `auditLog` records every request. */
  readonly audits?: boolean;
}

export interface ControlPlane {
  /** The folder of all its files; removed by `stop`. */
  readonly folder: string;
  /** The kubeconfig of a member of system:masters. */
  readonly kubeconfig: string;
  readonly apiPort: number;
  /** JSON lines (`audit.k8s.io/v1` Event); empty unless requested. */
  readonly auditLog: string;
  /** Issues certificates that the API server and its clients accept. */
  readonly authority: TestAuthority;
  /** kubectl as an administrator; resolves with its standard output. `input` is for `-f -`. */
  kubectl(args: readonly string[], input?: string): Promise<string>;
  /**
   * Kills the API server and etcd, keeping the data, as a crash does; `startApi` starts them again on the same port.
   */
  killApi(): Promise<void>;
  startApi(): Promise<void>;
  stop(): Promise<void>;
}

/** The users that authenticate with a token, by name; the tokens are the names. */
const users = {
  admin: { user: "admin", group: "system:masters" },
  "controller-manager": { user: "system:kube-controller-manager", group: "" },
  scheduler: { user: "system:kube-scheduler", group: "" },
} as const;

/** Starts a control plane; resolves when it serves and, with controllers, when pods can be created. */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const plane = await StartedPlane.prepare(options);
  try {
    await plane.startApi();
    if (options.controllers === true) await plane.startControllers();
    return plane;
  } catch (error) {
    await plane.stop();
    throw error;
  }
}

interface Ports {
  readonly api: number;
  readonly etcd: number;
  readonly etcdPeer: number;
  readonly controllerManager: number;
  readonly scheduler: number;
}

class StartedPlane implements ControlPlane {
  readonly folder: string;
  readonly kubeconfig: string;
  readonly authority: TestAuthority;
  readonly #options: ControlPlaneOptions;
  readonly #ports: Ports;
  #api: Daemon[] = [];
  #controllers: Daemon[] = [];

  private constructor(folder: string, ports: Ports, options: ControlPlaneOptions) {
    this.folder = folder;
    this.#ports = ports;
    this.#options = options;
    this.authority = new TestAuthority(requireProgram("openssl"), folder, "ca");
    this.kubeconfig = this.#kubeconfigOf("admin");
    const tokens = Object.entries(users).map(([token, { user, group }]) => `${token},${user},${user},"${group}"`);
    writeFileSync(join(folder, "tokens.csv"), `${tokens.join("\n")}\n`);
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
    writeFileSync(join(folder, "sa.key"), privateKey.export({ type: "sec1", format: "pem" }));
    writeFileSync(join(folder, "sa.pub"), publicKey.export({ type: "spki", format: "pem" }));
    const names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"].map((n) => `DNS:${n}`);
    this.authority.issue("apiserver", ...names, "IP:127.0.0.1", "IP:10.96.0.1", `IP:${this.#advertised}`);
    this.authority.issue("apiserver-kubelet-client");
  }

  static async prepare(options: ControlPlaneOptions): Promise<StartedPlane> {
    const folder = await mkdtemp(join(tmpdir(), "kube-rig-"));
    const ports = {
      api: await freePort(),
      etcd: await freePort(),
      etcdPeer: await freePort(),
      controllerManager: await freePort(),
      scheduler: await freePort(),
    };
    return new StartedPlane(folder, ports, options);
  }

  get apiPort(): number {
    return this.#ports.api;
  }

  get auditLog(): string {
    return join(this.folder, "audit.log");
  }

  get #advertised(): string {
    return this.#options.advertiseAddress ?? "10.244.0.1";
  }

  kubectl(args: readonly string[], input?: string): Promise<string> {
    return run(requireRigProgram("kubectl"), ["--kubeconfig", this.kubeconfig, ...args], input);
  }

  async startApi(): Promise<void> {
    const etcd = `http://127.0.0.1:${this.#ports.etcd}`;
    const server = [this.#start("etcd", etcdArgs(this.folder, etcd, `http://127.0.0.1:${this.#ports.etcdPeer}`))];
    this.#api = server;
    const audit = this.#options.audits === true ? auditArgs(this.folder, this.auditLog) : [];
    const args = [...apiArgs(this.folder, etcd, this.#ports.api, this.#advertised), ...audit];
    const api = this.#start("kube-apiserver", args);
    server.push(api);
    await api.waitUntil(async () => (await this.kubectl(["get", "--raw", "/readyz"])) === "ok");
  }

  async killApi(): Promise<void> {
    // The server first: without etcd it hangs for a minute.
    for (const daemon of this.#api.toReversed()) await daemon.stop(0);
    this.#api = [];
  }

  async startControllers(): Promise<void> {
    const { folder } = this;
    const manager = this.#start("kube-controller-manager", [
      ...loopbackArgs(this.#kubeconfigOf("controller-manager"), this.#ports.controllerManager),
      ...["--use-service-account-credentials=true", `--service-account-private-key-file=${folder}/sa.key`],
      ...[`--root-ca-file=${folder}/ca.crt`, `--cluster-signing-cert-file=${folder}/ca.crt`],
      `--cluster-signing-key-file=${folder}/ca.key`,
    ]);
    this.#controllers = [manager];
    const scheduler = loopbackArgs(this.#kubeconfigOf("scheduler"), this.#ports.scheduler);
    this.#controllers.push(this.#start("kube-scheduler", scheduler));
    // Pods can be created once the default ServiceAccount exists.
    await manager.waitUntil(async () => (await this.kubectl(["get", "serviceaccount", "default"])) !== "");
  }

  async stop(): Promise<void> {
    await Promise.all(this.#controllers.map((daemon) => daemon.stop(0)));
    await this.killApi();
    await rm(this.folder, { recursive: true, force: true });
  }

  #start(name: "etcd" | "kube-apiserver" | "kube-controller-manager" | "kube-scheduler", args: string[]): Daemon {
    // A quarter of the time of a start is garbage collection. The memory is there for the little that a test has.
    const env = { ...process.env, GOGC: "400" };
    return new Daemon({ name, command: requireRigProgram(name), args, logFolder: this.folder, env });
  }

  #kubeconfigOf(user: keyof typeof users): string {
    const path = join(this.folder, `${user}.kubeconfig`);
    const server = `https://127.0.0.1:${this.#ports.api}`;
    const cluster = `{name: rig, cluster: {server: "${server}", certificate-authority: ${this.folder}/ca.crt}}`;
    writeFileSync(
      path,
      [
        "apiVersion: v1",
        "kind: Config",
        `clusters: [${cluster}]`,
        `users: [{name: ${user}, user: {token: ${user}}}]`,
        `contexts: [{name: rig, context: {cluster: rig, user: ${user}}}]`,
        "current-context: rig",
        "",
      ].join("\n"),
    );
    return path;
  }
}

function etcdArgs(folder: string, client: string, peer: string): string[] {
  const data = join(folder, "etcd");
  mkdirSync(data, { recursive: true, mode: 0o700 });
  return [
    ...["--name", "rig", "--data-dir", data, "--log-level", "warn", "--unsafe-no-fsync"],
    ...["--listen-client-urls", client, "--advertise-client-urls", client],
    ...["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", `rig=${peer}`],
  ];
}

function apiArgs(folder: string, etcd: string, port: number, advertised: string): string[] {
  return [
    ...[`--etcd-servers=${etcd}`, "--bind-address=127.0.0.1", `--secure-port=${port}`],
    ...[`--advertise-address=${advertised}`, "--service-cluster-ip-range=10.96.0.0/16"],
    ...["--authorization-mode=Node,RBAC", "--allow-privileged=true"],
    ...[`--token-auth-file=${folder}/tokens.csv`, `--client-ca-file=${folder}/ca.crt`],
    ...[`--tls-cert-file=${folder}/apiserver.crt`, `--tls-private-key-file=${folder}/apiserver.key`],
    `--kubelet-client-certificate=${folder}/apiserver-kubelet-client.crt`,
    `--kubelet-client-key=${folder}/apiserver-kubelet-client.key`,
    ...[`--kubelet-certificate-authority=${folder}/ca.crt`, "--kubelet-preferred-address-types=InternalIP"],
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    ...[`--service-account-key-file=${folder}/sa.pub`, `--service-account-signing-key-file=${folder}/sa.key`],
  ];
}

function auditArgs(folder: string, log: string): string[] {
  const policy = join(folder, "audit.yaml");
  const rules = [{ level: "Metadata", omitStages: ["RequestReceived"] }];
  writeFileSync(policy, JSON.stringify({ apiVersion: "audit.k8s.io/v1", kind: "Policy", rules }));
  return [`--audit-policy-file=${policy}`, `--audit-log-path=${log}`];
}

function loopbackArgs(kubeconfig: string, port: number): string[] {
  return [
    ...[`--kubeconfig=${kubeconfig}`, `--authentication-kubeconfig=${kubeconfig}`],
    ...[`--authorization-kubeconfig=${kubeconfig}`, "--bind-address=127.0.0.1", `--secure-port=${port}`],
    "--leader-elect=false",
  ];
}
