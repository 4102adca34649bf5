/** The interface of a proxy in the benchmark. */
import type { Certificate } from "../../support/certificates.ts";
import type { BackendPorts } from "../backend.ts";
import type { ListenerName } from "../cases.ts";
import type { RunningProgram } from "../process.ts";

/** The ports of a peer, on 127.0.0.1. */
export type ListenerPorts = Readonly<Record<ListenerName, number>>;

/** The settings of a started peer. */
export interface PeerSetup {
  /** An empty folder for this peer. */
  readonly folder: string;
  readonly workers: number;
  /** Connections of clients that a peer has to keep open beyond its default bounds; absent: its defaults suffice. */
  readonly connections?: number;
  /** The folder for CPU profiles, which a peer in Node.js writes when it ends; absent: none. */
  readonly profiles: string | undefined;
  readonly listeners: ListenerPorts;
  /** The hosts of the routes of the listener `routes`; one if no case uses it. */
  readonly hosts: readonly string[];
  /** For the admin server of a peer that has one. */
  readonly adminPort: number;
  readonly backends: BackendPorts;
  /** Of the listener `tls`. */
  readonly certificate: Certificate;
  /** The port to which traces are exported. */
  readonly collectorPort: number;
  /** The gRPC port of the rate limit service that all peers call. */
  readonly limitServicePort: number;
  /** The port of the peer's own service, for the listener `path`; absent if no case uses it. */
  readonly ownServicePort: number | undefined;
}

/** One of the proxies compared. */
export interface Peer {
  readonly name: string;
  /** The rate limit service that users run beside it. */
  readonly service: "reference" | "ours";
  /** The compared version, as one line. */
  version(): string;
  start(setup: PeerSetup): RunningProgram;
  /** Prepares the peer before the measurement; retried while it fails because the peer is not up yet. */
  prepare?(setup: PeerSetup): Promise<void>;
}

/** The amount of every limit: more than any run can use, so that limits are counted and never reached. */
export const unreachedLimit = 1_000_000_000;
