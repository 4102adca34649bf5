/** The time to read credentials: the author of a Secret or ConfigMap must not block the readers. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { TestAuthority } from "../../../../test/support/certificates.ts";
import { describeWith } from "../../../../test/support/describe-with.ts";
import { parseManifests } from "../../api/parse-manifests.ts";
import { parseResource } from "../../api/parse-resource.ts";
import { secretValue } from "../../api/secret.ts";
import { AuthorityBudget, type CertificateCounts, readAuthorities, readKeyPair } from "./certificates.ts";
import { nameConstraintsIn } from "./name-constraints.ts";

const path = join(import.meta.dirname, "../testdata", "listener-tls.in.yaml");
const { resources } = parseManifests([{ path, text: readFileSync(path, "utf8") }]);
const [sound] = resources.Secret;
const [cert = "", key = ""] = ["tls.crt", "tls.key"].map((field) => `${sound && secretValue(sound, field)}\n`);

function configMap(text: string) {
  return held("ConfigMap", { data: { "ca.crt": text } });
}

function secret(chain: string, privateKey = key) {
  return held("Secret", { data: { "tls.crt": btoa(chain), "tls.key": btoa(privateKey) } });
}

function held(kind: string, fields: object) {
  const parsed = parseResource({ apiVersion: "v1", kind, metadata: { name: "a", namespace: "ns" }, ...fields });
  if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
  return parsed.resource as never;
}

/** Milliseconds of processor time, so that other programs do not count. */
function cpuOf(act: () => void): number {
  const before = process.cpuUsage();
  act();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

const mebibyte = 1_000_000;
const filled = (text: string) => text.repeat(Math.floor(mebibyte / text.length));

test.each([
  ["beginnings", filled("-----BEGIN CERTIFICATE-----\n")],
  ["beginnings and one end", `${filled("-----BEGIN CERTIFICATE-----\n")}-----END CERTIFICATE-----`],
  ["blank lines behind a certificate", `${cert}${filled("\n")}x`],
  ["dashes", `${cert}\n${filled("-----A\n ")}x`],
  ["more certificates than anybody has", filled(cert)],
])("a text of 1 MB is read or rejected within moments: %s", (_, text) => {
  // Some 10 ms. A search that restarts at each position takes from 20 s to minutes.
  expect(cpuOf(() => readAuthorities(configMap(text)))).toBeLessThan(2_000);
  expect(cpuOf(() => readKeyPair(secret(text)))).toBeLessThan(2_000);
});

test("more than 300 certificates are rejected", () => {
  expect(readAuthorities(configMap(cert.repeat(300)))).toMatchObject({ kind: "read" });
  const error = "has a ca.crt of 301 certificates, accepted are at most 300";
  expect(readAuthorities(configMap(cert.repeat(301)))).toEqual({ kind: "malformed", error });
});

test("a chain of more than 10 certificates is rejected", () => {
  expect(readKeyPair(secret(cert.repeat(10)))).toMatchObject({ kind: "read" });
  const error = "has a tls.crt of 11 certificates, accepted are at most 10";
  expect(readKeyPair(secret(cert.repeat(11)))).toEqual({ kind: "malformed", error });
});

test("the authorities of several objects are bounded together", () => {
  const counts: CertificateCounts = new Map();
  const budget = new AuthorityBudget(counts);
  const fits = (count: number): boolean => budget.rejection(cert.repeat(count), `ca-${count}`) === undefined;
  expect([150, 150, 1].map(fits)).toEqual([true, true, false]);
  const byLength = new AuthorityBudget(counts);
  const half = cert + "\n".repeat(300 * 1024);
  expect([half, half].map((text) => byLength.rejection(text, "half") === undefined)).toEqual([true, false]);
});

/** A DER element; contents of up to 65,535 bytes. */
function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(contents);
  return Buffer.concat([Buffer.from([tag, 0x82, content.length >> 8, content.length & 255]), content]);
}

function constraints(permitted: number, excluded: number): Buffer {
  const subtrees = (count: number) => Array.from({ length: count }, () => der(0x30, der(0x82, Buffer.from("a.test"))));
  const value = der(0x30, der(0xa0, ...subtrees(permitted)), der(0xa1, ...subtrees(excluded)));
  const extension = Buffer.concat([Buffer.from("0603551d1e0101ff", "hex"), der(0x04, value)]);
  return der(0x30, Buffer.from("before"), extension, Buffer.from("behind"));
}

test("name constraints are counted, and those that are not DER are too many", () => {
  expect(nameConstraintsIn(constraints(3, 4))).toBe(7);
  expect(nameConstraintsIn(constraints(0, 0))).toBe(0);
  expect(nameConstraintsIn(Buffer.from("nothing"))).toBe(0);
  expect(nameConstraintsIn(Buffer.concat([constraints(60, 0), constraints(0, 60)]))).toBe(120);
  const indefinite = Buffer.from("0603551d1e04083080a00030000000", "hex");
  expect(nameConstraintsIn(indefinite)).toBe(Infinity);
});

describeWith(["openssl"], "an authority", ({ openssl }) => {
  test.each([
    ["names", 100, "101 names and 0 name constraints"],
    ["name constraints", 100, "1 names and 101 name constraints"],
  ])("with more than 100 %s is left out, since each handshake compares them all", (what, most, found) => {
    const directory = mkdtempSync(join(tmpdir(), "certificates-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const authority = new TestAuthority(openssl, directory, "authority");
    const read = (count: number) => {
      const lines = Array.from({ length: count }, (_, at) => `DNS.${at + 1} = a${at}.test`);
      const permitted = lines.map((line) => `permitted;${line}`);
      const sections =
        what === "names"
          ? lines
          : ["DNS.1 = a.test", "[own]", "nameConstraints = @constraints", "[constraints]", ...permitted];
      return readAuthorities(configMap(authority.issueWith(`with-${count}`, sections).cert));
    };
    expect(read(most)).toMatchObject({ kind: "read" });
    const error = `has a ca.crt with a certificate with ${found}, accepted are at most 100 of each`;
    expect(read(most + 1)).toEqual({ kind: "malformed", error });
  });
});

test("an RSA key of more than 4,096 bits is rejected, since each handshake would take long", () => {
  const privateKey = rsaKeyOf(4_104);
  expect(readKeyPair(secret(cert, privateKey))).toEqual({
    kind: "malformed",
    error: "has a tls.key of 4104 bits, accepted for RSA are at most 4096",
  });
});

/** A key that does not work. A working one takes seconds to generate, and the length is checked first. */
function rsaKeyOf(bits: number): string {
  const tagged = (tag: number, content: Buffer) => {
    const { length } = content;
    return Buffer.concat([Buffer.from([tag, 0x82, length >> 8, length & 255]), content]);
  };
  const integer = (bytes: number) => tagged(2, Buffer.concat([Buffer.alloc(1), Buffer.alloc(bytes, 0xff)]));
  const [whole, half] = [bits / 8, bits / 16].map((bytes) => integer(Math.ceil(bytes)));
  const numbers = [
    tagged(2, Buffer.alloc(1)),
    whole,
    tagged(2, Buffer.from([1, 0, 1])),
    whole,
    half,
    half,
    half,
    half,
    half,
  ];
  const key = tagged(0x30, Buffer.concat(numbers.flatMap((each) => each ?? [])));
  return `-----BEGIN RSA PRIVATE KEY-----\n${key.toString("base64")}\n-----END RSA PRIVATE KEY-----\n`;
}
