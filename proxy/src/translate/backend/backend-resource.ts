/** Translates Backend resources: an address, and for an LLM provider its defaults and credentials. */
import { trimEnd } from "@gatewayproxy/runtime/trim-end";
import type {
  AiBackend as AiSpec,
  Backend as BackendResource,
  BackendTls as TlsSpec,
  StaticBackend,
} from "../../api/backend.ts";
import type { Secret } from "../../api/secret.ts";
import type { AiBackend, Backend, ClientCertificate, UpstreamTls } from "../../ir/snapshot.ts";
import type { Held } from "../tls/credentials.ts";
import type { Finding } from "../status/finding.ts";
import { namedSecrets, type ReadableResources, type AddressDenial } from "../reference/named-objects.ts";
import { nameKey } from "../index/object-names.ts";
import type { Resolution } from "./service-backend.ts";

const httpsPort = 443;

/** The default host of each provider. */
const providerHosts: Readonly<Record<AiBackend["provider"], string>> = {
  openai: "api.openai.com",
  anthropic: "api.anthropic.com",
};

/** A resolved Backend. */
export interface BackendState {
  readonly resource: BackendResource;
  readonly resolution: Resolution;
  /** Messages about malformed Secrets whose previous content is in use. */
  readonly malformed: readonly string[];
  /** Why the proxy does not connect to its address. */
  readonly forbidden?: Finding<"ForbiddenAddress">;
}

/** Returns a function that resolves a Backend. */
export function backendStateResolver(resources: ReadableResources): (resource: BackendResource) => BackendState {
  const secrets = namedSecrets(resources);
  const { keyPair, authorities, apiKey } = resources.credentials;
  return (resource) => {
    const forbidden = findForbidden(resource, resources.addressDenial);
    if (forbidden !== undefined) {
      const { reason, message } = forbidden;
      return { resource, resolution: { kind: "unresolved", reason, message }, malformed: [], forbidden };
    }
    const missing: string[] = [];
    const malformed: string[] = [];
    /** Returns the credentials of a Secret in the namespace of the Backend; undefined, with a message, if it has none. */
    const reading =
      <T>(read: (secret: Secret) => Held<T>) =>
      (name: string): T | undefined => {
        const key = `${resource.metadata.namespace}/${name}`;
        const refersTo = `Backend ${nameKey(resource)} refers to Secret ${key}, which`;
        const secret = secrets.get(key);
        const held = secret && read(secret);
        if (held?.kind === "previous") malformed.push(`${refersTo} ${held.fault}`);
        if (held !== undefined && held.kind !== "malformed") return held.value;
        missing.push(`${refersTo} ${held?.fault ?? secrets.absence(key)}`);
        return undefined;
      };
    const backend = backendOf(resource, {
      keyPair: reading(keyPair),
      authorities: reading(authorities),
      apiKey: reading(apiKey),
    });
    const [fault] = missing;
    if (fault === undefined) return { resource, resolution: { kind: "resolved", backend }, malformed };
    return { resource, resolution: { kind: "unresolved", reason: "BackendNotFound", message: fault }, malformed };
  };
}

/** Returns the finding for a Backend with a forbidden IP address or localhost, which need no resolution. */
function findForbidden(
  resource: BackendResource,
  addressDenial: AddressDenial,
): Finding<"ForbiddenAddress"> | undefined {
  const { spec } = resource;
  const kind = spec.ai === undefined ? "static" : "ai";
  const { host, port = httpsPort } = spec[kind] ?? {};
  const denial = host === undefined ? undefined : addressDenial(host, port);
  if (denial === undefined) return undefined;
  const message = `Backend ${nameKey(resource)} is at ${host} port ${port}, which ${denial}`;
  return { reason: "ForbiddenAddress", message, path: ["spec", kind, "host"] };
}

/** Reads Secrets by name. */
interface SecretReaders {
  readonly keyPair: (name: string) => ClientCertificate | undefined;
  readonly authorities: (name: string) => string | undefined;
  readonly apiKey: (name: string) => string | undefined;
}

/** Must not be called if a Secret could not be read. */
function backendOf(resource: BackendResource, read: SecretReaders): Backend {
  const { spec } = resource;
  if (spec.ai !== undefined) return aiBackend(resource, spec.ai, read);
  // The parser accepts exactly one of them, which the type does not express.
  return spec.static === undefined
    ? { ...identity(resource), endpoints: [] }
    : staticBackend(resource, spec.static, read);
}

function staticBackend(resource: BackendResource, { host, port, tls }: StaticBackend, read: SecretReaders): Backend {
  return { ...identity(resource), endpoints: [endpoint(host, port)], ...(tls && { tls: tlsOf(tls, read) }) };
}

function aiBackend(resource: BackendResource, spec: AiSpec, read: SecretReaders): Backend {
  const provider = spec.provider.anthropic === undefined ? "openai" : "anthropic";
  const port = spec.port ?? httpsPort;
  // A key must not be sent without TLS by mistake: that requires another port and an explicit host.
  const isTls = spec.tls !== undefined || spec.host === undefined || port === httpsPort;
  const model = spec.provider[provider]?.model;
  const pathPrefix = spec.path === undefined ? undefined : trimEnd(spec.path, /\//);
  // Without a key, the credentials of the client are forwarded.
  const apiKey = spec.auth?.secretRef && read.apiKey(spec.auth.secretRef.name);
  const ai: AiBackend = {
    provider,
    ...(model === undefined ? {} : { model }),
    ...(pathPrefix === undefined || pathPrefix === "" ? {} : { pathPrefix }),
    ...(apiKey === undefined ? {} : { apiKey: { secret: apiKey } }),
    ...(spec.upgrades === "Allow" && { allowsUpgrades: true }),
    ...(spec.deferredWork === "Allow" && { allowsDeferredWork: true }),
    ...(spec.otherEndpoints === "Allow" && { allowsOtherEndpoints: true }),
    ...(spec.usageChunk !== undefined && { usageChunk: spec.usageChunk }),
  };
  const endpoints = [endpoint(spec.host ?? providerHosts[provider], port)];
  return { ...identity(resource), endpoints, ...(isTls && { tls: tlsOf(spec.tls ?? {}, read) }), ai };
}

function identity({ metadata: { namespace, name } }: BackendResource): Omit<Backend, "endpoints"> {
  return { key: `Backend/${namespace}/${name}`, kind: "Backend", namespace, name };
}

function endpoint(host: string, port: number): Backend["endpoints"][number] {
  return { name: "backend", host, port };
}

function tlsOf({ hostname, caRef, clientCertificateRef }: TlsSpec, read: SecretReaders): UpstreamTls {
  const authorities = caRef && read.authorities(caRef.name);
  const clientCertificate = clientCertificateRef && read.keyPair(clientCertificateRef.name);
  return {
    ...(hostname !== undefined && { hostname }),
    ...(authorities !== undefined && { authorities: [authorities] }),
    ...(clientCertificate !== undefined && { clientCertificate }),
  };
}
