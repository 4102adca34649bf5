/** What the benchmark asks of a proxy that it compares. */
import type { Certificate } from "../../support/certificates.ts";
import type { BackendPorts } from "../backend.ts";
import type { RunningProgram } from "../process.ts";

/** Where a peer listens, on 127.0.0.1. */
export interface ListenerPorts {
  readonly plain: number;
  readonly limited: number;
  readonly global: number;
  readonly path: number;
  readonly tls: number;
}

/** What a peer is started with. */
export interface PeerSetup {
  /** An empty folder of its own. */
  readonly folder: string;
  readonly workers: number;
  readonly listeners: ListenerPorts;
  /** For the admin server of a peer that has one. */
  readonly adminPort: number;
  readonly backends: BackendPorts;
  /** Of the listener `tls`. */
  readonly certificate: Certificate;
  /** Of the rate limit service that all peers ask, in gRPC. */
  readonly limitServicePort: number;
  /** Of the peer's own, for the listener `path`; absent where no case is about it. */
  readonly ownServicePort: number | undefined;
}

/** One of the proxies compared. */
export interface Peer {
  readonly name: string;
  /** The rate limit service that people run beside it. */
  readonly service: "reference" | "ours";
  /** The version that is compared, as one line. */
  version(): string;
  start(setup: PeerSetup): RunningProgram;
  /** What is to be done before it is measured; tried again for as long as it fails because the peer is not up yet. */
  prepare?(setup: PeerSetup): Promise<void>;
}

/** The budget of every limit: more than any run can use, so that limits are counted and never hit. */
export const unreachedLimit = 1_000_000_000;
