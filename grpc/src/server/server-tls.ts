/**
 * The certificates of the gRPC port, and the requirements on client certificates. Files are read again when they
 * change. If a certificate and its key do not match or cannot be read, this is reported, and the previous pair stays in
 * use.
 */
import { readFileSync } from "node:fs";
import { createSecureContext, type SecureContextOptions, type TLSSocket, type TlsOptions } from "node:tls";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

/** Paths of PEM files. */
export interface ServerTlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
  /** The authorities of client certificates. If present, a client must have a certificate. */
  readonly clientCaFile?: string;
  /** A DNS name, IP address or URI that a client certificate must contain; absent: any certificate is accepted. */
  readonly clientSan?: string;
}

const pollMs = 1_000;

/** The certificates in use, which are checked for changes each second until `close`. */
export class ServerTls {
  readonly #files: ServerTlsFiles;
  readonly #onError: (error: unknown) => void;
  #pem: SecureContextOptions;
  #onChange: ((options: SecureContextOptions) => void) | undefined;
  #timer: Timer | undefined;

  /** Reads the files. Throws if they cannot be used; later errors are passed to `onError`. */
  constructor(files: ServerTlsFiles, clock: Clock, onError: (error: unknown) => void) {
    this.#files = files;
    this.#onError = onError;
    this.#pem = readPem(files);
    this.#poll(clock);
  }

  /** Returns the options of a TLS server with the current certificates. */
  options(): TlsOptions {
    return {
      ...this.#pem,
      minVersion: "TLSv1.2",
      requestCert: this.#files.clientCaFile !== undefined,
      rejectUnauthorized: this.#files.clientCaFile !== undefined,
    };
  }

  /** Calls `callback` with the new certificates after each valid change. Open connections keep the previous ones. */
  onChange(callback: (options: SecureContextOptions) => void): void {
    this.#onChange = callback;
  }

  /** Returns why a client with a valid certificate may not connect; `undefined` when it may. */
  clientErrorOf(socket: TLSSocket): string | undefined {
    const { clientSan } = this.#files;
    if (clientSan === undefined) {
      return undefined;
    }
    const names = subjectAltNames(socket.getPeerCertificate().subjectaltname);
    return names.includes(clientSan)
      ? undefined
      : `client certificate for ${names.join(", ") || "no name"}, required is ${clientSan}`;
  }

  /** Stops polling. */
  close(): void {
    this.#timer?.cancel();
  }

  /**
   * Polls the content, which detects all ways to replace files: rename, the symlink swap of a Secret volume, rewriting.
   */
  #poll(clock: Clock): void {
    this.#timer = clock.setTimer(pollMs, () => {
      this.#reload();
      this.#poll(clock);
    });
  }

  #reload(): void {
    try {
      const pem = readPem(this.#files);
      if (pem.cert !== this.#pem.cert || pem.key !== this.#pem.key || pem.ca !== this.#pem.ca) {
        this.#pem = pem;
        this.#onChange?.({ ...pem, minVersion: "TLSv1.2" });
      }
    } catch (error) {
      this.#onError(error);
    }
  }
}

/** Reads the files. Throws when certificate and key do not match. */
function readPem(files: ServerTlsFiles): SecureContextOptions {
  const pem = {
    cert: readFileSync(files.certFile, "utf8"),
    key: readFileSync(files.keyFile, "utf8"),
    ...(files.clientCaFile === undefined ? {} : { ca: readFileSync(files.clientCaFile, "utf8") }),
  };
  try {
    createSecureContext(pem);
  } catch (cause) {
    throw new Error(`reading TLS files ${files.certFile} and ${files.keyFile}: ${String(cause)}`, { cause });
  }
  return pem;
}

/** Parses the values of a certificate's `DNS:a, IP Address:b, URI:c`. */
function subjectAltNames(text: string | undefined): string[] {
  return (text ?? "")
    .split(", ")
    .map((name) => name.slice(name.indexOf(":") + 1))
    .filter((name) => name !== "");
}
