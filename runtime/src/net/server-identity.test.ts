import { expect, test } from "vitest";
import { serverIdentityOf } from "./server-identity.ts";

/** A certificate for one host, as far as it is read. */
const certificateFor = (host: string) => ({ subject: {}, subjectaltname: host }) as never;

test.each<[string, string | undefined, string | undefined, string]>([
  ["xds.test:18000", undefined, undefined, "DNS:xds.test"],
  ["xds.test:18000", "other.test", "other.test", "DNS:other.test"],
  ["192.0.2.1:18000", undefined, "ip-address.invalid", "IP Address:192.0.2.1"],
  ["[2001:db8::1]:18000", undefined, "ip-address.invalid", "IP Address:2001:DB8:0:0:0:0:0:1"],
  ["xds.test:18000", "192.0.2.1", "ip-address.invalid", "IP Address:192.0.2.1"],
  ["192.0.2.1:18000", "xds.test", "xds.test", "DNS:xds.test"],
])("%s, named %s, is %s in the handshake, and has a certificate for %s", (address, serverName, name, host) => {
  const { handshakeName, check } = serverIdentityOf(address, serverName);

  expect(handshakeName).toBe(name);
  expect(check(certificateFor(host))).toBeUndefined();
  expect(check(certificateFor("DNS:elsewhere.test, DNS:ip-address.invalid, IP Address:192.0.2.9"))).toBeInstanceOf(
    Error,
  );
});
