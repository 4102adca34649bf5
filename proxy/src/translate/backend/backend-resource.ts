/** Translates Backend resources: an address, and for an LLM provider its defaults and credentials. */
import { microUnitsOf } from "@gatewayproxy/runtime/money";
import { trimEnd } from "@gatewayproxy/runtime/trim-end";
import type {
  AiBackend as AiSpec,
  Backend as BackendResource,
  BackendTls as TlsSpec,
  ModelPrice as PriceSpec,
  StaticBackend,
} from "../../api/backend.ts";
import type { FieldPath } from "../../api/issue.ts";
import type { Secret } from "../../api/secret.ts";
import type { AiBackend, Backend, ClientCertificate, ModelPrice, UpstreamTls } from "../../ir/snapshot.ts";
import type { AddressDenial, TranslationContext } from "../context.ts";
import { nameKey } from "../index/object-names.ts";
import { readSecret, type Resolution } from "../reference/resolution.ts";
import { type Finding, findingOfReference } from "../status/finding.ts";
import type { FindingOf } from "../status/findings-table.ts";
import type { BedrockCredentials } from "../tls/certificates.ts";
import type { CredentialResult } from "../tls/credentials.ts";

const httpsPort = 443;

/** The public hosts. Azure and compatible servers have none. */
const providerHosts: Readonly<Partial<Record<AiBackend["provider"], string>>> = {
  openai: "api.openai.com",
  anthropic: "api.anthropic.com",
  gemini: "generativelanguage.googleapis.com",
};

/** All providers. */
const providers: readonly AiBackend["provider"][] = [
  ...(["openai", "anthropic", "azure", "gemini", "bedrock", "openaiCompatible"] as const),
];

/** A resolved Backend. */
export interface BackendState {
  readonly resource: BackendResource;
  readonly resolution: Resolution<Backend, "ForbiddenAddress" | "BackendNotFound">;
  /** The Backends of its providers; empty for a Backend without a list of them. */
  readonly providers: readonly Backend[];
  readonly findings: readonly FindingOf<"Backend">[];
}

/** Resolves a Backend without a list of providers: whether the proxy may connect to its address, and its Secrets. */
export function resolveBackend(context: TranslationContext, resource: BackendResource): BackendState {
  const forbidden = findForbidden(resource, context.addressDenial);
  if (forbidden !== undefined) {
    const { reason, message } = forbidden;
    return { resource, resolution: { kind: "unresolved", reason, message }, providers: [], findings: [forbidden] };
  }
  const missing: Finding<"InvalidSecretRef">[] = [];
  const malformed: Finding<"InvalidSecretRef">[] = [];
  /** Returns the credentials of a Secret; undefined, with a finding, if it has none. */
  const reading =
    <T>(read: (secret: Secret) => CredentialResult<T>): ReadSecret<T> =>
    ({ name }, path) => {
      const found = readSecret(context, resource.metadata.namespace, name, read, "InvalidSecretRef");
      if (found.kind === "resolved") return found.value;
      (found.kind === "previous" ? malformed : missing).push(findingOfReference(found, path));
      return found.kind === "previous" ? found.value : undefined;
    };
  const { keyPair, authorities, apiKey, bedrock } = context.credentials;
  const backend = backendOf(resource, {
    keyPair: reading(keyPair),
    authorities: reading(authorities),
    apiKey: reading(apiKey),
    bedrock: reading(bedrock),
  });
  const [first] = missing;
  const findings = [...missing, ...malformed];
  if (first === undefined) {
    return { resource, resolution: { kind: "resolved", value: backend }, providers: [], findings };
  }
  const message = `Backend ${nameKey(resource)} is invalid: ${first.message}`;
  const { code } = first;
  return {
    resource,
    resolution: { kind: "unresolved", reason: "BackendNotFound", message, code },
    providers: [],
    findings,
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

/** Reads a Secret in the namespace of the Backend. @param path of the reference. */
type ReadSecret<T> = (ref: { readonly name: string }, path: FieldPath) => T | undefined;

interface SecretReaders {
  readonly keyPair: ReadSecret<ClientCertificate>;
  readonly authorities: ReadSecret<string>;
  readonly apiKey: ReadSecret<string>;
  readonly bedrock: ReadSecret<BedrockCredentials>;
}

/** Must not be called if a Secret could not be read. */
function backendOf(resource: BackendResource, read: SecretReaders): Backend {
  const { spec } = resource;
  if (spec.ai?.provider !== undefined) return aiBackend(resource, { ...spec.ai, provider: spec.ai.provider }, read);
  // The parser accepts exactly one of them, which the type does not express.
  return spec.static === undefined
    ? { ...identity(resource), endpoints: [] }
    : staticBackend(resource, spec.static, read);
}

function staticBackend(resource: BackendResource, { host, port, tls }: StaticBackend, read: SecretReaders): Backend {
  return {
    ...identity(resource),
    endpoints: [endpoint(host, port)],
    ...(tls && { tls: tlsOf(tls, ["spec", "static", "tls"], read) }),
  };
}

/** `spec.ai` of a Backend with one provider. */
type ProviderSpec = AiSpec & { readonly provider: NonNullable<AiSpec["provider"]> };

function aiBackend(resource: BackendResource, spec: ProviderSpec, read: SecretReaders): Backend {
  const provider = providers.find((name) => spec.provider[name] !== undefined) ?? "openai";
  const port = spec.port ?? httpsPort;
  // A key must not be sent without TLS by mistake: that requires another port and an explicit host.
  const isTls = spec.tls !== undefined || spec.host === undefined || port === httpsPort;
  const model = spec.provider[provider]?.model;
  const pathPrefix = spec.path === undefined ? undefined : trimEnd(spec.path, /\//);
  const ai: AiBackend = {
    provider,
    ...(model === undefined ? {} : { model }),
    ...(pathPrefix === undefined || pathPrefix === "" ? {} : { pathPrefix }),
    ...azureSettings(spec.provider.azure),
    ...credentialsOf(spec, read),
    ...(spec.upgrades === "Allow" && { allowsUpgrades: true }),
    ...(spec.deferredWork === "Allow" && { allowsDeferredWork: true }),
    ...(spec.otherEndpoints === "Allow" && { allowsOtherEndpoints: true }),
    ...(spec.usageChunk !== undefined && { usageChunk: spec.usageChunk }),
    ...pricingOf(spec),
  };
  const endpoints = [endpoint(spec.host ?? publicHost(provider, spec), port)];
  return {
    ...identity(resource),
    endpoints,
    ...(isTls && { tls: tlsOf(spec.tls ?? {}, ["spec", "ai", "tls"], read) }),
    ai,
  };
}

/** The parser accepts no provider without a public host and without `host`. */
function publicHost(provider: AiBackend["provider"], { provider: { bedrock } }: ProviderSpec): string {
  if (bedrock === undefined) return providerHosts[provider] ?? "";
  // The regions of China have a domain of their own (AWS General Reference, "Amazon Bedrock endpoints and quotas").
  return `bedrock-runtime.${bedrock.region}.amazonaws.com${bedrock.region.startsWith("cn-") ? ".cn" : ""}`;
}

/** Returns the prices of a Backend, and the models to which they apply, in the form of the snapshot. */
export function pricingOf({ models, prices, currency }: AiSpec): Pick<AiBackend, "models" | "prices" | "currency"> {
  return {
    ...(models !== undefined && { models: models.map(({ name, as = name }) => ({ name, as })) }),
    ...(prices !== undefined && { prices: pricesOf(prices) }),
    ...(currency !== undefined && { currency }),
  };
}

function pricesOf(prices: NonNullable<AiSpec["prices"]>): Readonly<Record<string, ModelPrice>> {
  return Object.fromEntries(Object.entries(prices).map(([model, price]) => [model, priceOf(price)]));
}

function priceOf({ input, cachedInput, cacheCreation, output }: PriceSpec): ModelPrice {
  return {
    input: microUnitsOf(input),
    ...(cachedInput !== undefined && { cachedInput: microUnitsOf(cachedInput) }),
    ...(cacheCreation !== undefined && { cacheCreation: microUnitsOf(cacheCreation) }),
    output: microUnitsOf(output),
  };
}

function azureSettings(azure: ProviderSpec["provider"]["azure"]): Pick<AiBackend, "apiVersion" | "sendsBearer"> {
  return {
    ...(azure?.apiVersion !== undefined && { apiVersion: azure.apiVersion }),
    ...(azure?.authentication === "Bearer" && { sendsBearer: true }),
  };
}

/** Without a Secret, the credentials of the client are forwarded. */
function credentialsOf(
  { auth, provider: { bedrock } }: ProviderSpec,
  read: SecretReaders,
): Pick<AiBackend, "apiKey" | "signature"> {
  if (auth?.secretRef === undefined) return {};
  const path = ["spec", "ai", "auth", "secretRef"];
  if (bedrock === undefined) {
    const apiKey = read.apiKey(auth.secretRef, path);
    return apiKey === undefined ? {} : { apiKey: { secret: apiKey } };
  }
  const found = read.bedrock(auth.secretRef, path);
  if (found === undefined) return {};
  if ("apiKey" in found) return { apiKey: { secret: found.apiKey } };
  return { signature: { region: bedrock.region, credentials: found.keys } };
}

/** Returns the fields of a Backend that identify it in the snapshot. */
export function identity({ metadata: { namespace, name } }: BackendResource): Omit<Backend, "endpoints"> {
  return { key: `Backend/${namespace}/${name}`, kind: "Backend", namespace, name };
}

function endpoint(host: string, port: number): Backend["endpoints"][number] {
  return { name: "backend", host, port };
}

function tlsOf({ hostname, caRef, clientCertificateRef }: TlsSpec, path: FieldPath, read: SecretReaders): UpstreamTls {
  const authorities = caRef && read.authorities(caRef, [...path, "caRef"]);
  const clientCertificate =
    clientCertificateRef && read.keyPair(clientCertificateRef, [...path, "clientCertificateRef"]);
  return {
    ...(hostname !== undefined && { hostname }),
    ...(authorities !== undefined && { authorities: [authorities] }),
    ...(clientCertificate !== undefined && { clientCertificate }),
  };
}
