/** A Backend resource as a backend: one address, and for an LLM provider its defaults and credentials. */
import type {
  AiBackend as AiSpec,
  Backend as BackendResource,
  BackendTls as TlsSpec,
  StaticBackend,
} from "../api/backend.ts";
import { type Secret, secretValue } from "../api/secret.ts";
import type { AiBackend, Backend, UpstreamTls } from "../ir/snapshot.ts";
import type { NamedObjects } from "./named-objects.ts";
import { nameKey } from "./object-names.ts";
import type { Resolution } from "./service-backend.ts";

/** The key of a Secret that holds an LLM provider's API key. */
const apiKeyField = "apiKey";

const httpsPort = 443;

/** Where each provider is reached when the Backend names no host. */
const providerHosts: Readonly<Record<AiBackend["provider"], string>> = {
  openai: "api.openai.com",
  anthropic: "api.anthropic.com",
};

/** Resolves a Backend. */
export function resolveBackendResource(resource: BackendResource, secrets: NamedObjects<Secret>): Resolution {
  if (resource.spec.static !== undefined) {
    return staticBackend(resource, resource.spec.static, secrets);
  }
  if (resource.spec.ai !== undefined) return aiBackend(resource, resource.spec.ai, secrets);
  // The parser has refused such a Backend; the type does not know.
  return notFound(resource, "has neither static nor ai");
}

function staticBackend(
  resource: BackendResource,
  { host, port, tls }: StaticBackend,
  secrets: NamedObjects<Secret>,
): Resolution {
  const transport = readTls(resource, tls, secrets);
  if (transport.kind === "unresolved") return transport;
  return {
    kind: "resolved",
    backend: { ...identity(resource), endpoints: [endpoint(host, port)], ...transport.fields },
  };
}

function aiBackend(resource: BackendResource, spec: AiSpec, secrets: NamedObjects<Secret>): Resolution {
  const provider = spec.provider.anthropic === undefined ? "openai" : "anthropic";
  const credentials = readApiKey(resource, spec, secrets);
  if (credentials.kind === "unresolved") return credentials;

  const port = spec.port ?? httpsPort;
  // A key must not travel in the clear by oversight: plain text needs another port and a host of one's own.
  const isTls = spec.tls !== undefined || spec.host === undefined || port === httpsPort;
  const model = spec.provider[provider]?.model;
  const pathPrefix = spec.path?.replace(/\/+$/, "");
  const ai: AiBackend = {
    provider,
    ...(model === undefined ? {} : { model }),
    ...(pathPrefix === undefined || pathPrefix === "" ? {} : { pathPrefix }),
    ...(credentials.apiKey === undefined ? {} : { apiKey: { secret: credentials.apiKey } }),
  };
  const endpoints = [endpoint(spec.host ?? providerHosts[provider], port)];
  const transport = readTls(resource, isTls ? (spec.tls ?? {}) : undefined, secrets);
  if (transport.kind === "unresolved") return transport;
  return { kind: "resolved", backend: { ...identity(resource), endpoints, ...transport.fields, ai } };
}

type Credentials =
  | { readonly kind: "known"; readonly apiKey: string | undefined }
  | Extract<Resolution, { kind: "unresolved" }>;

/** The key to send; undefined passes the client's own credentials through. */
function readApiKey(resource: BackendResource, { auth }: AiSpec, secrets: NamedObjects<Secret>): Credentials {
  const reference = auth?.secretRef;
  if (reference === undefined) return { kind: "known", apiKey: undefined };
  const name = `${resource.metadata.namespace}/${reference.name}`;
  const secret = secrets.get(name);
  if (secret === undefined) return notFound(resource, `refers to Secret ${name}, which ${secrets.absence(name)}`);
  const apiKey = secretValue(secret, apiKeyField);
  if (apiKey === undefined || apiKey === "")
    return notFound(resource, `refers to Secret ${name}, which has no ${apiKeyField}`);
  // Goes into a header: anything but visible ASCII would break it, or smuggle another one in.
  if (!/^[\x21-\x7e]+$/.test(apiKey))
    return notFound(resource, `refers to Secret ${name}, whose ${apiKeyField} is no key`);
  return { kind: "known", apiKey };
}

function notFound(resource: BackendResource, fault: string): Extract<Resolution, { kind: "unresolved" }> {
  return { kind: "unresolved", reason: "BackendNotFound", message: `Backend ${nameKey(resource)} ${fault}` };
}

function identity({ metadata: { namespace, name } }: BackendResource): Omit<Backend, "endpoints"> {
  return { key: `Backend/${namespace}/${name}`, kind: "Backend", namespace, name };
}

function endpoint(host: string, port: number): Backend["endpoints"][number] {
  return { name: "backend", host, port };
}

type Transport =
  | { readonly kind: "known"; readonly fields: { readonly tls?: UpstreamTls } }
  | Extract<Resolution, { kind: "unresolved" }>;

/** How the backend is connected to; nothing where in plain text. */
function readTls(resource: BackendResource, spec: TlsSpec | undefined, secrets: NamedObjects<Secret>): Transport {
  if (spec === undefined) return { kind: "known", fields: {} };
  const { hostname, caRef, clientCertificateRef } = spec;
  const missing: string[] = [];
  const pem = (name: string, key: string): string => {
    const source = `${resource.metadata.namespace}/${name}`;
    const secret = secrets.get(source);
    const value = secret === undefined ? undefined : secretValue(secret, key);
    if (value?.startsWith("-----BEGIN ") === true) return value;
    const fault = secret === undefined ? secrets.absence(source) : `has no ${key} in PEM`;
    missing.push(`Secret ${source}, which ${fault}`);
    return "";
  };
  const tls: UpstreamTls = {
    ...(hostname !== undefined && { hostname }),
    ...(caRef !== undefined && { authorities: pem(caRef.name, "ca.crt") }),
    ...(clientCertificateRef !== undefined && {
      clientCertificate: {
        chain: pem(clientCertificateRef.name, "tls.crt"),
        privateKey: { secret: pem(clientCertificateRef.name, "tls.key") },
      },
    }),
  };
  const [fault] = missing;
  return fault === undefined ? { kind: "known", fields: { tls } } : notFound(resource, `refers to ${fault}`);
}
