/** Certificates for tests of TLS, made by openssl in a folder of the test. */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
  /** The certificate as PEM text. */
  readonly cert: string;
  readonly key: string;
}

const ecdsa = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

/** An authority that issues certificates; everything is written below `directory`. */
export class TestAuthority {
  readonly authority: Certificate;
  readonly #openssl: string;
  readonly #directory: string;

  constructor(openssl: string, directory: string, name: string) {
    this.#openssl = openssl;
    this.#directory = directory;
    this.authority = this.#make(name, ecdsa, []);
  }

  /** A certificate for these names, such as `DNS:localhost` or `IP:127.0.0.1`; `file` names its files. */
  issue(file: string, ...altNames: readonly string[]): Certificate {
    return this.#issue(file, ecdsa, altNames);
  }

  /** Like `issue`; only the issuer's name, which other authorities may have too, says who signed it. */
  issueByName(file: string, ...altNames: readonly string[]): Certificate {
    return this.#issue(file, [...ecdsa, "-addext", "authorityKeyIdentifier=none"], altNames);
  }

  /** Like `issue`, with an RSA key. */
  issueRsa(file: string, ...altNames: readonly string[]): Certificate {
    return this.#issue(file, ["-newkey", "rsa:2048"], altNames);
  }

  /**
   * Like `issue`, with the lines of a section of alternative names (x509v3_config), in which any text can be written.
   */
  issueWith(file: string, altNames: readonly string[]): Certificate {
    const config = join(this.#directory, `${file}.cnf`);
    const sections = ["[req]", "distinguished_name = dn", "[dn]", "[own]", "subjectAltName = @names", "[names]"];
    writeFileSync(config, [...sections, ...altNames].join("\n"));
    return this.#make(file, ecdsa, ["-config", config, "-extensions", "own"]);
  }

  #issue(file: string, key: readonly string[], altNames: readonly string[]): Certificate {
    const { certFile, keyFile } = this.authority;
    const names = altNames.length === 0 ? [] : ["-addext", `subjectAltName=${altNames.join(",")}`];
    const signer = ["-CA", certFile, "-CAkey", keyFile, "-addext", "basicConstraints=CA:FALSE"];
    return this.#make(file, key, [...signer, ...names]);
  }

  #make(file: string, newKey: readonly string[], extra: readonly string[]): Certificate {
    const certFile = join(this.#directory, `${file}.crt`);
    const keyFile = join(this.#directory, `${file}.key`);
    const key = [...newKey, "-nodes", "-keyout", keyFile];
    const args = ["req", "-x509", ...key, "-out", certFile, "-subj", `/CN=${file}`, "-days", "2", ...extra];
    execFileSync(this.#openssl, args, { stdio: "pipe" });
    return { certFile, keyFile, cert: readFileSync(certFile, "utf8"), key: readFileSync(keyFile, "utf8") };
  }
}
