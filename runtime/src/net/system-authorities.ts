/**
 * The certificate authorities of the machine, in addition to those that Node contains: from `SSL_CERT_FILE` and
 * `SSL_CERT_DIR`, else from OpenSSL's default folders, such as `/etc/ssl/certs`. Programs in other languages trust them
 * by default.
 */
import { getCACertificates, setDefaultCACertificates } from "node:tls";

let isDone = false;

/**
 * Makes TLS connections of this thread trust the machine's authorities too, except connections that name their own.
 * Reads all authorities, once. Call it before the first such connection; a thread that opens none need not.
 */
export function trustSystemAuthorities(): void {
  if (isDone) return;
  isDone = true;
  const system = getCACertificates("system");
  if (system.length > 0) setDefaultCACertificates([...new Set([...getCACertificates("default"), ...system])]);
}
