import { X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PeerCertificate } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestAuthority } from "../../../test/support/certificates.ts";
import { describeWith } from "../../../test/support/describe-with.ts";
import type { SubjectAltName } from "../ir/snapshot.ts";
import { identityCheck } from "./server-identity.ts";

const dns = (value: string): SubjectAltName => ({ kind: "dns", value });
const uri = (value: string): SubjectAltName => ({ kind: "uri", value });

describeWith(["openssl"], "a server's certificate", ({ openssl }) => {
  let directory = "";
  let authority: TestAuthority;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "server-identity-"));
    authority = new TestAuthority(openssl, directory, "authority");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  /** Why a certificate of the CN `victim.example` with these names is not the server's. */
  function faultOf(names: readonly string[], accepted: readonly SubjectAltName[] | undefined, asked = "other.example") {
    const { cert } = authority.issueWith("victim.example", names);
    return identityCheck(asked, accepted)("", new X509Certificate(cert).toLegacyObject())?.message;
  }

  test.each([
    ["its DNS name", ["DNS.1 = a.example"], dns("a.example")],
    ["its DNS name in capitals", ["DNS.1 = A.Example"], dns("a.example")],
    ["a name that its wildcard covers", ["DNS.1 = *.b.example"], dns("a.b.example")],
    ["its wildcard itself", ["DNS.1 = *.Example.com"], dns("*.example.com")],
    ["its URI", ["URI.1 = spiffe://a/b"], uri("spiffe://a/b")],
    [
      "a URI after names of other kinds",
      ["email.1 = a@b.example", "IP.1 = ::1", "RID.1 = 1.2.3", "URI.1 = a://b"],
      uri("a://b"),
    ],
    ["a URI after a name that we cannot read", ["otherName.1 = 1.2.3.4;UTF8:x", "URI.1 = a://b"], uri("a://b")],
    ["a URI after a quoted name", ["dirName.1 = dir", "URI.1 = a://b", "[dir]", "CN = x\\, y"], uri("a://b")],
    ["a URI with a comma, which Node quotes", ["URI.1 = a://b\\,c"], uri("a://b,c")],
    ["a URI with a backslash, which Node quotes", ["URI.1 = a://b\\\\c"], uri("a://b\\c")],
  ])("is taken for %s", (_, names, accepted) => {
    expect(faultOf(names, [uri("no://body"), accepted])).toBeUndefined();
  });

  test.each([
    { asked: "rl.infra", trust: "configured", isTaken: true },
    { asked: "RL.Infra", trust: "configured", isTaken: true },
    // Of the system's authorities none may vouch for all of a top-level domain.
    { asked: "rl.infra", trust: "system", isTaken: false },
    { asked: "infra", trust: "configured", isTaken: false },
    { asked: ".infra", trust: "configured", isTaken: false },
    { asked: "a.rl.infra", trust: "configured", isTaken: false },
    { asked: "rl.infra.svc", trust: "configured", isTaken: false },
    { asked: "rl.other", trust: "configured", isTaken: false },
  ] as const)("for *.infra is taken for $asked by $trust authorities: $isTaken", ({ asked, trust, isTaken }) => {
    const { cert } = authority.issueWith("victim.example", ["DNS.1 = *.infra"]);
    const fault = identityCheck(asked, undefined, trust)("", new X509Certificate(cert).toLegacyObject());
    expect(fault === undefined).toBe(isTaken);
  });

  test.each([
    ["its common name", ["URI.1 = a://b"], dns("victim.example")],
    ["what a quoted URI says of a DNS name", ["URI.1 = a://b\\, DNS:victim.example"], dns("victim.example")],
    ["what a quoted URI says of a wildcard", ["URI.1 = a://b\\, DNS:*.victim.example"], dns("*.victim.example")],
    ["what a quoted URI says of another", ["URI.1 = a://b\\, URI:c://d"], uri("c://d")],
    ["what a quoted DNS name says of a URI", ["DNS.1 = a.example\\, URI:c://d"], uri("c://d")],
    ["what a directory name says of a URI", ["dirName.1 = dir", "[dir]", "CN = x\\, URI:c://d"], uri("c://d")],
    ["the part of a URI before its comma", ["URI.1 = a://b\\,c"], uri("a://b")],
    ["a URI in other capitals", ["URI.1 = spiffe://a/B"], uri("spiffe://a/b")],
    ["a URI that goes on", ["URI.1 = spiffe://a/b/c"], uri("spiffe://a/b")],
    ["a name two labels below its wildcard", ["DNS.1 = *.b.example"], dns("c.a.b.example")],
    ["the name above its wildcard", ["DNS.1 = *.a.example"], dns("a.example")],
    ["a wildcard, where it has one of the names", ["DNS.1 = a.example"], dns("*.example")],
    ["an address, which is no DNS name", ["IP.1 = 127.0.0.1"], dns("127.0.0.1")],
    ["a DNS name that its URI has", ["URI.1 = a.example:1"], dns("a.example")],
  ])("is not taken for %s", (_, names, accepted) => {
    expect(faultOf(names, [accepted])).toContain(`accepted is ${accepted.value}`);
  });

  test.each([
    ["a host name", ["DNS.1 = a.example"], "a.example", "b.example"],
    ["an address", ["IP.1 = 127.0.0.1"], "127.0.0.1", "127.0.0.2"],
    ["an address of version 6", ["IP.1 = fd00::1"], "fd00::1", "fd00::2"],
  ])("is checked by %s if no names replace it", (_, names, own, other) => {
    expect(faultOf(names, undefined, own)).toBeUndefined();
    expect(faultOf(names, undefined, other)).toContain("does not match certificate's altnames");
  });

  test.each([
    { name: "a name in quotes without an end", certificate: { subjectaltname: 'DNS:"a.example' }, accepted: undefined },
    { name: "no certificate at all", certificate: { raw: Buffer.alloc(0) }, accepted: [dns("a.example")] },
  ])("that cannot be read is not the server's: $name", ({ certificate, accepted }) => {
    const check = identityCheck("a.example", accepted);
    const found = { subject: { CN: "a.example" }, ...certificate } as unknown as PeerCertificate;
    expect(check("", found)?.message).toContain("the names of the certificate cannot be read");
  });

  test("is not checked by the host name if other names replace it", () => {
    expect(faultOf(["DNS.1 = a.example"], [uri("a://b")], "a.example")).toContain("DNS:a.example");
  });
});
