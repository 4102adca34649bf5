/**
 * The certificate authorities of the machine beside those that Node brings: what `SSL_CERT_FILE` and `SSL_CERT_DIR` name,
 * else the places of OpenSSL, such as `/etc/ssl/certs`. Programs in other languages trust them without being asked.
 */
import { getCACertificates, setDefaultCACertificates } from "node:tls";

let isDone = false;

/**
 * Has TLS connections of this thread that name no authorities trust the machine's, too. Reading them takes some 100 ms
 * once, so whoever is about to open such a connection calls this, and a thread that opens none never does.
 */
export function trustSystemAuthorities(): void {
  if (isDone) return;
  isDone = true;
  const system = getCACertificates("system");
  if (system.length > 0) setDefaultCACertificates([...new Set([...getCACertificates("default"), ...system])]);
}
