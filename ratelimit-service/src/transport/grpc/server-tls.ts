/**
 * Certificates of the gRPC port, and what is asked of clients. Files are read again when they change; a pair that does not
 * fit or cannot be read is reported and the one in use stays.
 */
import { readFileSync } from "node:fs";
import { createSecureContext, type SecureContextOptions, type TLSSocket, type TlsOptions } from "node:tls";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

export interface ServerTlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
  /** Authorities of client certificates; with it a client must have one. */
  readonly clientCaFile?: string;
  /** A DNS name, IP address or URI that a client's certificate must carry; absent: any. */
  readonly clientSan?: string;
}

const pollMs = 1_000;

export class ServerTls {
  readonly #files: ServerTlsFiles;
  readonly #onFault: (error: unknown) => void;
  #pem: SecureContextOptions;
  #onChange: ((options: SecureContextOptions) => void) | undefined;
  #timer: Timer | undefined;

  /** Reads the files at once and throws when they cannot be used; later faults go to `onFault`. */
  constructor(files: ServerTlsFiles, clock: Clock, onFault: (error: unknown) => void) {
    this.#files = files;
    this.#onFault = onFault;
    this.#pem = readPem(files);
    this.#poll(clock);
  }

  options(): TlsOptions {
    return {
      ...this.#pem,
      minVersion: "TLSv1.2",
      requestCert: this.#files.clientCaFile !== undefined,
      rejectUnauthorized: this.#files.clientCaFile !== undefined,
    };
  }

  /** Calls back with the new certificates after each good change; connections that are open keep theirs. */
  onChange(callback: (options: SecureContextOptions) => void): void {
    this.#onChange = callback;
  }

  /** Why a client whose certificate is good may still not connect; `undefined` when it may. */
  faultOfClient(socket: TLSSocket): string | undefined {
    const { clientSan } = this.#files;
    if (clientSan === undefined) {
      return undefined;
    }
    const names = subjectAltNames(socket.getPeerCertificate().subjectaltname);
    return names.includes(clientSan)
      ? undefined
      : `client certificate for ${names.join(", ") || "no name"}, wanted is ${clientSan}`;
  }

  /** Looks at the files no more. */
  close(): void {
    this.#timer?.cancel();
  }

  /** Polling by content sees every way of replacing files: rename, symlink swap of a Secret volume, rewriting. */
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
      this.#onFault(error);
    }
  }
}

/** Throws unless certificate and key belong together. */
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

/** Values of a certificate's `DNS:a, IP Address:b, URI:c`. */
function subjectAltNames(text: string | undefined): string[] {
  return (text ?? "")
    .split(", ")
    .map((name) => name.slice(name.indexOf(":") + 1))
    .filter((name) => name !== "");
}
