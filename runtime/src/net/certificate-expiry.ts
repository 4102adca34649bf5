/** The end of the validity of certificates. */

/**
 * Returns the end of a certificate's validity (`notAfter`, RFC 5280 §4.1.2.5); undefined if it is not a time, which
 * OpenSSL accepts. `X509Certificate.validToDate` is then a random date, or none.
 */
export function expiryOf({ validTo }: { readonly validTo: string }): Date | undefined {
  const ms = Date.parse(validTo);
  return Number.isNaN(ms) ? undefined : new Date(ms);
}
