import { expect, test } from "vitest";
import type { UpstreamTls } from "../ir/snapshot.ts";
import { tlsIdentity } from "./tls-identity.ts";

const pem = "x".repeat(100_000);
const tls: UpstreamTls = {
  hostname: "a.test",
  authorities: [pem, "b"],
  clientCertificate: { chain: pem, privateKey: { secret: "key" } },
};

test("equal settings have one identity, whatever the objects", () => {
  expect(tlsIdentity(structuredClone(tls))).toBe(tlsIdentity(tls));
  expect(tlsIdentity(undefined)).toBe(tlsIdentity(undefined));
});

test.each<[string, UpstreamTls | undefined]>([
  ["no TLS", undefined],
  ["another name", { ...tls, hostname: "b.test" }],
  ["other authorities", { ...tls, authorities: [pem] }],
  ["texts that are joined otherwise", { ...tls, authorities: [`${pem}b`] }],
  ["another key", { ...tls, clientCertificate: { chain: pem, privateKey: { secret: "other" } } }],
  ["no client certificate", { hostname: "a.test", authorities: [pem, "b"] }],
])("%s is another identity", (_, other) => {
  expect(tlsIdentity(other)).not.toBe(tlsIdentity(tls));
});

test("an identity is short, however long the authorities", () => {
  expect(tlsIdentity(tls).length).toBeLessThan(300);
});
