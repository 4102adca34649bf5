/** Secrets and ConfigMaps that become malformed while they are in use: their previous content stays in use. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { statusLines } from "../../proxy/src/status/conditions.ts";
import type { Translation } from "../../proxy/src/translate/translate.ts";
import { respondWith, startBackend } from "../support/backend.ts";
import { type Certificate, TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { backendManifest, backendRef, manifests, routeManifest, startGateway } from "../support/gateway.ts";
import { authorityManifest, sendTls, tlsGatewayManifest, tlsListener, tlsSecretManifest } from "../support/tls.ts";

const stays = "stays in force where it is known";

describeWith(["openssl"], "a malformed object", ({ openssl }) => {
  let directory: string;
  let authority: TestAuthority;
  let server: Certificate;
  let other: Certificate;

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "malformed-credentials-"));
    authority = new TestAuthority(openssl, directory, "authority");
    server = authority.issue("server", "DNS:a.example");
    other = authority.issue("other", "DNS:b.example");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  const half = (pem: string) => pem.slice(0, pem.length / 2);
  const secret = (name: string, data: object, more = "") => `
apiVersion: v1
kind: Secret
metadata: { name: ${name}, namespace: default, ${more} }
stringData: ${JSON.stringify(data)}
`;
  const configMap = (name: string, data: object) => `
apiVersion: v1
kind: ConfigMap
metadata: { name: ${name}, namespace: default }
data: ${JSON.stringify(data)}
`;
  const tlsPolicy = `
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: { name: tls, namespace: default }
spec:
  targetRefs: [{ group: "", kind: Service, name: protected }]
  validation: { hostname: b.example, caCertificateRefs: [{ group: "", kind: ConfigMap, name: servers }] }
`;
  const service = `
apiVersion: v1
kind: Service
metadata: { name: protected, namespace: default }
spec: { ports: [{ port: 80 }] }
`;
  const backend = (name: string, spec: string) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: default }
spec: ${spec}
`;
  const reference = (kind: string, name: string) => `{ group: "", kind: ${kind}, name: ${name} }`;
  const clients = `frontend: { default: { validation: { caCertificateRefs: [${reference("ConfigMap", "clients")}] } } }`;

  /** Every kind of credentials in use, each in its own object. */
  const users = () =>
    manifests(
      tlsGatewayManifest(
        [tlsListener("https", ["server"])],
        `tls: { backend: { clientCertificateRef: { name: own } }, ${clients} }`,
      ),
      routeManifest("r", [
        `backendRefs: [${["llm", "static"].map((name) => backendRef(name)).join(", ")}, { name: protected, port: 80 }]`,
      ]),
      backend("llm", `{ ai: { provider: { openai: {} }, auth: { secretRef: { name: key } } } }`),
      backend(
        "static",
        `{ static: { host: a.test, port: 443, tls: { caRef: { name: roots }, clientCertificateRef: { name: pair } } } }`,
      ),
      service,
      tlsPolicy,
    );

  /** The valid objects, by name. */
  const valid = (): Readonly<Record<string, string>> => ({
    server: tlsSecretManifest("server", server),
    own: tlsSecretManifest("own", server),
    clients: authorityManifest("clients", authority.authority),
    servers: authorityManifest("servers", authority.authority),
    roots: secret("roots", { "ca.crt": authority.authority.cert }),
    pair: secret("pair", { "tls.crt": server.cert, "tls.key": server.key }),
    key: secret("key", { apiKey: "sk-1" }),
  });
  const bundle = () => authority.authority.cert + half(server.cert);
  const cases: readonly (readonly [string, string, () => string])[] = [
    ["a certificate with another's key", "server", () => tlsSecretManifest("server", { ...server, key: other.key })],
    ["a half certificate", "server", () => tlsSecretManifest("server", { ...server, cert: half(server.cert) })],
    ["half a chain", "server", () => tlsSecretManifest("server", { ...server, cert: server.cert + half(other.cert) })],
    ["half a key", "server", () => tlsSecretManifest("server", { ...server, key: half(server.key) })],
    [
      "a certificate in a Secret without a type",
      "server",
      () => secret("server", { "tls.crt": server.cert, "tls.key": server.key }),
    ],
    ["a Gateway's client certificate", "own", () => tlsSecretManifest("own", { ...server, key: other.key })],
    ["half an authority of clients", "clients", () => configMap("clients", { "ca.crt": half(server.cert) })],
    ["a truncated bundle", "clients", () => configMap("clients", { "ca.crt": bundle() })],
    ["no authority of clients", "clients", () => configMap("clients", {})],
    ["half an authority of servers", "servers", () => configMap("servers", { "ca.crt": half(server.cert) })],
    ["an authority of a Backend", "roots", () => secret("roots", { "ca.crt": bundle() })],
    ["a certificate of a Backend", "pair", () => secret("pair", { "tls.crt": server.cert, "tls.key": other.key })],
    ["an empty key of a provider", "key", () => secret("key", { apiKey: "" })],
    ["no key of a provider", "key", () => secret("key", {})],
    ["a key of a provider in two lines", "key", () => secret("key", { apiKey: "sk\n1" })],
  ];

  const served = ({ binds, backends }: Translation) => ({ binds, backends });
  const texts = (objects: Readonly<Record<string, string>>) => manifests(users(), ...Object.values(objects));
  const falseConditions = ({ statuses }: Translation) =>
    [...statusLines(statuses)].filter(({ status, condition }) => status === "False" && condition !== "Conflicted");

  test.each(cases)("%s: everything is served as before, and reported", async (_, name, malformed) => {
    const gateway = await startGateway(texts(valid()));
    const before = await gateway.apply(texts(valid()));
    expect(falseConditions(before)).toEqual([]);
    for (let time = 1; time <= 2; time++) {
      const after = await gateway.apply(texts({ ...valid(), [name]: malformed() }));
      expect(served(after)).toEqual(served(before));
      const reported = falseConditions(after).map(({ message }) => message);
      expect(reported).toContainEqual(expect.stringMatching(new RegExp(`/${name}.*${stays}`)));
      expect(after.problems).toContainEqual(
        expect.objectContaining({ message: expect.stringMatching(new RegExp(`/${name}.*${stays}`)) as string }),
      );
    }
    const again = await gateway.apply(texts(valid()));
    expect(served(again)).toEqual(served(before));
    expect(falseConditions(again)).toEqual([]);
  });

  test.each(cases)("%s: the previous content is dropped with the object", async (_, name, malformed) => {
    const gateway = await startGateway(texts(valid()));
    const { [name]: gone, ...others } = valid();
    expect(gone).toBeDefined();
    await gateway.apply(texts(others));
    const after = await gateway.apply(texts({ ...valid(), [name]: malformed() }));
    const reported = falseConditions(after).map(({ message }) => message);
    expect(reported).toContainEqual(expect.stringMatching(new RegExp(`default/${name}\\b`)));
    expect(reported.filter((message) => message.includes(stays))).toEqual([]);
  });

  describe("the listener", () => {
    const conditionsOf = (translation: Translation) =>
      Object.fromEntries(
        [...statusLines(translation.statuses)]
          .filter(({ of }) => of === "listener https")
          .map(({ condition, status, reason }) => [condition, `${status} ${reason}`]),
      );

    test("presents the previous certificate, and reports its expiry", async () => {
      const { port } = await startBackend(respondWith(200, "ok"));
      const rest = [backendManifest("b", port), routeManifest("r", [`backendRefs: [${backendRef("b")}]`])];
      const all = (certificate: string) =>
        manifests(tlsGatewayManifest([tlsListener("https", ["server"])]), ...rest, certificate);
      const gateway = await startGateway(all(tlsSecretManifest("server", server)));
      const after = await gateway.apply(all(tlsSecretManifest("server", { ...server, key: other.key })));
      const ca = authority.authority.cert;
      expect(await sendTls(gateway, "a.example", { ca })).toMatchObject({ status: 200, body: "ok" });
      expect(conditionsOf(after)).toEqual({
        Accepted: "True Accepted",
        Programmed: "True Programmed",
        ResolvedRefs: "False InvalidCertificateRef",
        Conflicted: "False NoConflicts",
      });
      expect(falseConditions(after)[0]?.message).toMatch(
        /^Secret default\/server has a tls\.key that .*; its previous certificate, valid until \d{4}-\d\d-\d\dT[\d:]{8}Z, stays in force where it is known$/,
      );
    });

    test("is not accepted, as the Gateway API requires, but still served while its authorities are malformed", async () => {
      const gateway = await startGateway(texts(valid()));
      const after = await gateway.apply(texts({ ...valid(), clients: configMap("clients", {}) }));
      expect(conditionsOf(after)).toEqual({
        Accepted: "False NoValidCACertificate",
        Programmed: "True Programmed",
        ResolvedRefs: "False InvalidCACertificateRef",
        Conflicted: "False NoConflicts",
      });
      expect(after.statuses.gateways[0]?.conditions).toContainEqual(
        expect.objectContaining({ type: "Accepted", status: "True", reason: "ListenersNotValid" }),
      );
    });

    test("loses a certificate of another namespace with the grant, and does not get it back malformed", async () => {
      const grant = `
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: { name: certificates, namespace: certs }
spec:
  from: [{ group: gateway.networking.k8s.io, kind: Gateway, namespace: default }]
  to: [{ group: "", kind: Secret }]
`;
      const listener = tlsListener("https", ["server"]).replace("name: server", "name: server, namespace: certs");
      const inCerts = (certificate: Certificate) =>
        tlsSecretManifest("server", certificate).replace("namespace: default", "namespace: certs");
      const malformed = inCerts({ ...server, key: other.key });
      const gateway = await startGateway(manifests(tlsGatewayManifest([listener]), inCerts(server), grant));
      const kept = await gateway.apply(manifests(tlsGatewayManifest([listener]), malformed, grant));
      expect(kept.binds).toHaveLength(1);
      const withdrawn = await gateway.apply(manifests(tlsGatewayManifest([listener]), malformed));
      expect(withdrawn.binds).toEqual([]);
      expect(conditionsOf(withdrawn)).toMatchObject({ ResolvedRefs: "False RefNotPermitted" });
      const again = await gateway.apply(manifests(tlsGatewayManifest([listener]), malformed, grant));
      expect(again.binds).toEqual([]);
    });

    test("is kept even if the previous certificate has no readable expiry", async () => {
      const der = Buffer.from(server.cert.replaceAll(/-----.*-----/g, ""), "base64");
      // Validity is a SEQUENCE (48) of 30 bytes, two UTCTimes (23) of 13 bytes each. The random serial number before it
      // may contain the first bytes of one UTCTime, but hardly all four of these. There is no month 99.
      const validity = der.indexOf(Buffer.from([48, 30, 23, 13]));
      const notAfterMonth = validity + 2 + 15 + 2 + 2;
      der.write("99", notAfterMonth);
      const cert = `-----BEGIN CERTIFICATE-----\n${der.toString("base64")}\n-----END CERTIFICATE-----\n`;
      const gatewayText = tlsGatewayManifest([tlsListener("https", ["server"])]);
      const all = (key: string) => manifests(gatewayText, tlsSecretManifest("server", { cert, key }));
      const gateway = await startGateway(all(server.key));
      const after = await gateway.apply(all(other.key));
      expect(after.binds).toHaveLength(1);
      expect(falseConditions(after)[0]?.message).toMatch(/its previous certificate stays in force/);
    });

    test("uses nothing of an earlier Secret with the same name", async () => {
      const gatewayText = tlsGatewayManifest([tlsListener("https", ["server"])]);
      const withUid = (uid: string, certificate: Certificate) =>
        tlsSecretManifest("server", certificate).replace("name: server,", `name: server, uid: ${uid},`);
      const gateway = await startGateway(manifests(gatewayText, withUid("one", server)));
      const after = await gateway.apply(manifests(gatewayText, withUid("two", { ...server, key: other.key })));
      expect(after.binds).toEqual([]);
    });
  });
});
