/**
 * Terminates the TLS of clients. The listener whose hostname is most specific for the server name of the client (SNI)
 * decides on the certificate, the versions, the protocol and the validation of client certificates, just as routing
 * chooses the listener of a request. A client with a server name that no listener has gets a handshake failure alert.
 *
 * An instance is immutable. When the listeners change, new connections get a new instance. Open connections and
 * handshakes in progress keep the instance with which they began.
 */
import { constants } from "node:crypto";
import { Socket } from "node:net";
import { createSecureContext, createServer, type SecureContext, type Server, TLSSocket } from "node:tls";
import type { Certificate, ClientValidation, Listener, ListenerTls, TlsVersion } from "../ir/snapshot.ts";
import { HostTable } from "../routing/host-table.ts";
import type { TlsSession } from "./connection.ts";
import { serverNameOf } from "./server-name.ts";
import { offeredGroups } from "./tls-groups.ts";

/** The parts of a listener that TLS termination uses. */
export type TlsListener = Pick<Listener, "key" | "hostname"> & { readonly tls: ListenerTls };

/** Receives the results of handshakes. */
export interface TlsOutcomes {
  /** Called with a connection whose handshake is done. The socket is paused. */
  readonly onSecure: (socket: TLSSocket, session: TlsSession) => void;
  /** Called with a connection that is closed because its handshake has failed. @param reason for the log. */
  readonly onRejected: (socket: TLSSocket, reason: string) => void;
  /** Called for an internal error during a handshake, which has ended that connection. */
  readonly onFault: (error: unknown) => void;
  /** Has to call `sign`, which continues a handshake up to the operation with the private key. */
  readonly onChosen: (sign: () => void) => void;
}

/** What a client offers (node:tls). */
interface AlpnOffer {
  readonly servername: string;
  readonly protocols: string[];
}

const handshakeTimeoutMs = 10_000;
/** Aborts a handshake from a callback. The error does not come from node:tls. */
const handshakeFault = new Error("no certificate could be chosen");

/** The TLS server of one bind, for a fixed list of listeners. A handshake has 10 s. */
export class TlsTermination {
  readonly #names = new HostTable<CompiledListener>();
  /** Does not listen: `terminate` passes connections to it. */
  readonly #server: Server;

  readonly #outcomes: TlsOutcomes;

  /** Whether clients are asked for a certificate, if they present one or not. */
  readonly asksCertificate: boolean;

  /**
   * Throws if OpenSSL rejects the settings of the listeners.
   *
   * @param listeners at least one.
   * @param alpn `noAlpn`: no protocol is selected, whatever clients offer, and `ListenerTls.protocols` are not used.
   */
  constructor(listeners: readonly TlsListener[], outcomes: TlsOutcomes, alpn: "alpn" | "noAlpn" = "alpn") {
    this.#outcomes = outcomes;
    for (const listener of listeners) this.#names.add(listener.hostname, compileListener(listener));
    const rules = listeners.map(({ tls }) => tls);
    const asksCertificate = rules.some(({ clientValidation }) => clientValidation !== undefined);
    this.asksCertificate = asksCertificate;
    this.#server = createServer({
      // A client without SNI gets the settings of the listener without a hostname.
      ...this.#names.find("")?.optionsFor(""),
      handshakeTimeout: handshakeTimeoutMs,
      ecdhCurve: offeredGroups,
      // TLS negotiates the version before the server name is known. Here the listeners' ranges are combined; the range
      // of the listener is checked after the handshake.
      minVersion: lowest(rules.map(({ minVersion }) => minVersion)),
      maxVersion: highest(rules.map(({ maxVersion }) => maxVersion)),
      // Validated after the handshake, when the listener is known.
      requestCert: asksCertificate,
      rejectUnauthorized: false,
      // A resumed session keeps the validation result of its first handshake, which may have been with another listener
      // (CVE-2025-23419). If a listener validates client certificates, sessions are not resumed.
      //
      // No client of HTTP needs to renegotiate, and the operation with the private key would not wait for a turn.
      secureOptions: constants.SSL_OP_NO_RENEGOTIATION | (asksCertificate ? constants.SSL_OP_NO_TICKET : 0),
      // node:tls calls these from native code, where an exception would end the process.
      SNICallback: (name, done) => {
        const found = this.#guarded(() => ({ context: this.#contextFor(nameOf(name)) }));
        if (found === undefined) done(handshakeFault);
        else outcomes.onChosen(() => done(null, found.context));
      },
      ...(alpn === "alpn" && {
        ALPNCallback: ({ servername, protocols }: AlpnOffer) =>
          this.#guarded(() => this.#choose(nameOf(servername), protocols)),
      }),
    });
    this.#server.on("tlsClientError", (error, socket) => outcomes.onRejected(socket, reasonOf(error)));
    this.#server.on("secureConnection", (socket) => {
      if (this.#guarded(() => (this.#accept(socket), true)) === undefined) socket.destroy();
    });
  }

  /** Returns the result of `action`. Reports its error and returns undefined if it throws. */
  #guarded<Value>(action: () => Value): Value | undefined {
    try {
      return action();
    } catch (error) {
      this.#outcomes.onFault(error);
      return undefined;
    }
  }

  /** Starts the handshake. `onSecure` is called on success; otherwise the connection is closed. */
  terminate(socket: Socket): void {
    this.#server.emit("connection", socket);
  }

  /** @param serverName as `nameOf`. */
  #listenerOf(serverName: string | undefined): CompiledListener | undefined {
    return serverName === undefined ? undefined : this.#names.find(serverName);
  }

  #contextFor(serverName: string | undefined): SecureContext | undefined {
    return this.#listenerOf(serverName)?.contextFor(serverName ?? "");
  }

  /** @returns undefined without a common protocol. The client then gets an alert (RFC 7301 §3.2). */
  #choose(serverName: string | undefined, offered: readonly string[]): string | undefined {
    const protocols = this.#listenerOf(serverName)?.tls.protocols ?? [];
    return protocols.find((protocol) => offered.includes(protocol));
  }

  #accept(socket: TLSSocket): void {
    socket.on("error", ignore);
    const serverName = nameOf(socket.servername);
    const listener = this.#listenerOf(serverName);
    const fault = listener === undefined ? "no listener has the server name" : faultOf(listener.tls, socket);
    if (serverName === undefined || listener === undefined || fault !== undefined) {
      this.#outcomes.onRejected(socket, fault ?? "");
      socket.destroy();
      return;
    }
    this.#outcomes.onSecure(socket, { serverName, validation: listener.tls.clientValidation });
  }
}

interface CompiledListener {
  readonly tls: ListenerTls;
  readonly contextFor: (name: string) => SecureContext | undefined;
  readonly optionsFor: (name: string) => ContextOptions | undefined;
}

function compileListener({ tls }: TlsListener): CompiledListener {
  const table = new HostTable<CompiledContext>();
  for (const certificate of tls.certificates) {
    const compiled = compileContext(tls, certificate);
    for (const hostname of certificate.hostnames) table.add(hostname, compiled);
    // If no certificate is for the name, the first one is presented.
    table.add(undefined, compiled);
  }
  const optionsFor = (name: string) => table.find(name)?.options;
  const contextFor = (name: string): SecureContext | undefined => {
    const found = table.find(name);
    if (found !== undefined) reportKeys(found);
    return found?.context;
  };
  return { tls, contextFor, optionsFor };
}

interface CompiledContext {
  readonly options: ContextOptions;
  readonly context: SecureContext;
  /** As `reportKeys`. */
  reportsKeys: boolean;
}

type ContextOptions = ReturnType<typeof contextOptions>;

/**
 * Contexts by certificate, authorities and ciphers. OpenSSL parses all authorities for each context, so listeners with
 * the same settings share one.
 */
const contexts = new WeakMap<Certificate, WeakMap<readonly string[], Map<string, CompiledContext>>>();
const noAuthorities: readonly string[] = [];

/** A context has one certificate. With several, Node would present only the last one to a client with SNI. */
function compileContext({ ciphers = tls12Ciphers, clientValidation }: ListenerTls, certificate: Certificate) {
  const authorities = clientValidation === undefined ? noAuthorities : authoritiesOf(clientValidation);
  const ofCertificate = contexts.get(certificate) ?? new WeakMap<readonly string[], Map<string, CompiledContext>>();
  contexts.set(certificate, ofCertificate);
  const ofAuthorities = ofCertificate.get(authorities) ?? new Map<string, CompiledContext>();
  ofCertificate.set(authorities, ofAuthorities);
  const known = ofAuthorities.get(ciphers);
  if (known !== undefined) return known;
  const options = contextOptions(ciphers, authorities, certificate);
  const compiled = { options, context: createSecureContext(options), reportsKeys: false };
  ofAuthorities.set(ciphers, compiled);
  return compiled;
}

/**
 * Makes OpenSSL report the keys of all connections with a context that a server name has chosen, by the event "keylog"
 * (`boundKeyUpdates`). A listener of such a connection does that for the context of the server only.
 */
function reportKeys(compiled: CompiledContext): void {
  if (compiled.reportsKeys) return;
  compiled.reportsKeys = true;
  const socket = new TLSSocket(new Socket(), { isServer: true, secureContext: compiled.context });
  socket.on("keylog", ignore).on("error", ignore).destroy();
}

function contextOptions(ciphers: string, authorities: readonly string[], { chain, privateKey }: Certificate) {
  return {
    cert: chain,
    key: privateKey.secret,
    ca: [...authorities],
    ciphers: `${tls13Ciphers}:${ciphers}`,
  };
}

/**
 * Returns the authorities with which OpenSSL validates client certificates. The list is empty if every client is
 * accepted: OpenSSL accepts a certificate of an unknown authority. A certificate with the name of a known authority and
 * the signature of another would leave an error in OpenSSL, and Node would close the connection.
 */
function authoritiesOf({ authorities, mode }: ClientValidation): readonly string[] {
  return mode === "AllowValidOnly" ? authorities : noAuthorities;
}

/** The ciphers with forward secrecy and authenticated encryption. HTTP/2 prohibits most others (RFC 9113 §9.2.2). */
const tls12Ciphers = [
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-CHACHA20-POLY1305",
  "ECDHE-RSA-CHACHA20-POLY1305",
].join(":");

/** RFC 8446 §B.4. They are enabled whenever TLS 1.3 is. */
const tls13Ciphers = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

/**
 * Returns the server name as `serverNameOf`; empty for a client without SNI, for which Node passes `false` or nothing,
 * despite its types.
 */
function nameOf(serverName: unknown): string | undefined {
  return typeof serverName === "string" && serverName !== "" ? serverNameOf(serverName) : "";
}

/** Error codes of OpenSSL for a handshake without a certificate: no listener has one for the server name. */
const withoutCertificate = new Set(["ERR_SSL_NO_SUITABLE_SIGNATURE_ALGORITHM", "ERR_SSL_NO_SHARED_CIPHER"]);

/** Returns the reason in an error of a handshake, without OpenSSL's source locations. */
function reasonOf(error: Error & { readonly code?: string; readonly reason?: string }): string {
  const { reason = error.message, code = "" } = error;
  return withoutCertificate.has(code) ? `no listener has a certificate for the server name (${reason})` : reason;
}

/** Returns why a listener does not accept a connection whose handshake is done; undefined if it accepts it. */
function faultOf({ minVersion, maxVersion, clientValidation }: ListenerTls, socket: TLSSocket): string | undefined {
  const version = socket.getProtocol() ?? "";
  if (version < minVersion || version > maxVersion) {
    return `the listener does not accept ${version}, accepted are ${minVersion} to ${maxVersion}`;
  }
  if (clientValidation?.mode !== "AllowValidOnly" || socket.authorized) return undefined;
  return `the client's certificate is not valid: ${String(socket.authorizationError)}`;
}

function lowest(versions: readonly TlsVersion[]): TlsVersion {
  return versions.includes("TLSv1.2") ? "TLSv1.2" : "TLSv1.3";
}

function highest(versions: readonly TlsVersion[]): TlsVersion {
  return versions.includes("TLSv1.3") ? "TLSv1.3" : "TLSv1.2";
}

function ignore(): void {
  // Nothing to do: "close" reports it.
}
