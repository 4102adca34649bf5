/**
 * `tls.options` of a listener: settings of this controller (Gateway API `ListenerTLSConfig.options`), each with its
 * accepted values. A listener with an invalid one is rejected. Keys with other prefixes have no effect, which a
 * condition reports.
 */
import type { FieldPath } from "../../api/issue.ts";
import { proxyGroup } from "../../api/names.ts";
import type { AlpnProtocol, ListenerTls, TlsVersion } from "../../ir/snapshot.ts";
import type { Finding, Found } from "../status/finding.ts";

/** The part of a listener's TLS that options set. */
export type TlsOptions = Pick<ListenerTls, "minVersion" | "maxVersion" | "ciphers" | "protocols">;

const versions: Readonly<Record<string, TlsVersion>> = { "1.2": "TLSv1.2", "1.3": "TLSv1.3" };

const protocols: Readonly<Record<string, AlpnProtocol>> = { h2: "h2", "http/1.1": "http/1.1" };

/**
 * The suites of TLS 1.2 with forward secrecy and authenticated encryption, by their IANA names. All others are weak.
 */
const suites: Readonly<Record<string, string>> = {
  TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: "ECDHE-ECDSA-AES128-GCM-SHA256",
  TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: "ECDHE-RSA-AES128-GCM-SHA256",
  TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: "ECDHE-ECDSA-AES256-GCM-SHA384",
  TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: "ECDHE-RSA-AES256-GCM-SHA384",
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-ECDSA-CHACHA20-POLY1305",
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-RSA-CHACHA20-POLY1305",
};

/** The accepted values of each key. Lists are separated by commas. */
const accepted = {
  "min-tls-version": versions,
  "max-tls-version": versions,
  "tls12-cipher-suites": suites,
  "alpn-protocols": protocols,
};

/** The accepted keys. */
const tlsOptionKeys: readonly string[] = Object.keys(accepted).map((key) => `${proxyGroup}/${key}`);

/**
 * Reads the options of a listener; undefined if one is invalid.
 *
 * @param path of the options.
 */
export function resolveTlsOptions(
  texts: Readonly<Record<string, string>>,
  path: FieldPath,
): Found<TlsOptions | undefined, "UnsupportedValue" | "Unsupported"> {
  const rejections: Finding<"UnsupportedValue">[] = [];
  const reject = (key: string, message: string) => {
    rejections.push({ reason: "UnsupportedValue", message, path: [...path, key] });
  };
  const read = <Value extends string>(name: keyof typeof accepted, words: Readonly<Record<string, Value>>) => {
    const key = `${proxyGroup}/${name}`;
    if (!Object.hasOwn(texts, key)) return undefined;
    const found = (texts[key] ?? "").split(",").map((word) => word.trim());
    const values = found.flatMap((word) => (Object.hasOwn(words, word) ? (words[word] ?? []) : []));
    if (values.length === found.length) return [...new Set(values)];
    reject(key, `${key} is "${texts[key] ?? ""}", accepted is ${Object.keys(words).join(", ")}`);
    return undefined;
  };
  const [minVersion = "TLSv1.2"] = read("min-tls-version", versions) ?? [];
  const [maxVersion = "TLSv1.3"] = read("max-tls-version", versions) ?? [];
  const ciphers = read("tls12-cipher-suites", suites)?.join(":");
  const alpn: readonly AlpnProtocol[] = read("alpn-protocols", protocols) ?? ["h2", "http/1.1"];
  if (minVersion > maxVersion) reject(`${proxyGroup}/min-tls-version`, "min-tls-version is above max-tls-version");
  const unsupported = unknownKeys(texts, path, reject);
  const options = { minVersion, maxVersion, protocols: alpn, ...(ciphers !== undefined && { ciphers }) };
  return { value: rejections.length === 0 ? options : undefined, findings: [...rejections, ...unsupported] };
}

function unknownKeys(
  texts: Readonly<Record<string, string>>,
  path: FieldPath,
  reject: (key: string, message: string) => void,
): readonly Finding<"Unsupported">[] {
  return Object.keys(texts)
    .filter((key) => !tlsOptionKeys.includes(key))
    .flatMap((key) => {
      if (key.startsWith(`${proxyGroup}/`)) {
        reject(key, `unknown option ${key}, accepted are ${tlsOptionKeys.join(", ")}`);
        return [];
      }
      return [{ reason: "Unsupported" as const, message: `option ${key} has no effect here`, path: [...path, key] }];
    });
}
