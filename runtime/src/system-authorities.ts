/**
 * The certificate authorities of the machine beside those that Node brings: what `SSL_CERT_FILE` and `SSL_CERT_DIR` name,
 * else the places of OpenSSL, such as `/etc/ssl/certs`. Programs in other languages trust them without being asked.
 */
import { existsSync } from "node:fs";
import { getCACertificates, setDefaultCACertificates } from "node:tls";

let isDone = false;

/**
 * Has TLS connections of this thread that name no authorities trust the machine's, too. Reading them takes some 100 ms
 * once, so whoever is about to open such a connection calls this, and a thread that opens none never does.
 */
export function trustSystemAuthorities(): void {
  if (isDone) return;
  isDone = true;
  if (!mayHaveAuthorities()) return;
  const system = getCACertificates("system");
  if (system.length > 0) setDefaultCACertificates([...new Set([...getCACertificates("default"), ...system])]);
}

/** Node complains on standard error of a folder that is not there, as in an image without any. */
function mayHaveAuthorities(): boolean {
  const { SSL_CERT_FILE: file, SSL_CERT_DIR: folder = "/etc/ssl/certs" } = process.env;
  return process.platform !== "linux" || file !== undefined || existsSync(folder);
}
