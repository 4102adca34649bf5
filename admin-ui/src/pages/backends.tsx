/** Every backend that rules and policies name, with its endpoints; failing ones first. */
import type { ConfigDump, DumpedBackend, ListedProvider } from "@gatewayproxy/admin-api/config-dump";
import { formatCount, formatMs } from "../format.ts";
import { type Column, DataTable } from "../parts/data-table.tsx";
import { Empty } from "../parts/empty.tsx";
import { Endpoints, isFailing } from "../parts/endpoints.tsx";

/** The page of backends and endpoints. */
export function BackendsPage({ dump }: { dump: ConfigDump }) {
  const { backends } = dump;
  const services = rateLimitServices(dump);
  if (backends.length === 0) {
    return (
      <Empty title="There are no backends.">
        <p>
          No rule and no policy in use names one. <a href="#routes">Routes</a> shows the rules, and{" "}
          <a href="#overview">Overview</a> what is not served and why.
        </p>
      </Empty>
    );
  }
  const sorted = backends.toSorted((a, b) => Number(isIll(b)) - Number(isIll(a)));
  return (
    <>
      {sorted.map((backend) => (
        <section key={backend.key} aria-label={backend.key} class="card">
          <h3>
            <span class="kind">{kindOf(backend)}</span> {backend.key.slice(backend.key.indexOf("/") + 1)}
          </h3>
          {services.has(backend.key) ? (
            <p class="note">
              A rate limit service, which gets no client requests. <a href="#limits">Limits</a> shows its state.
            </p>
          ) : (
            <>
              <p class="note">{describeBackend(backend)}</p>
              <Providers backend={backend} />
              <BackendEndpoints backend={backend} />
            </>
          )}
        </section>
      ))}
    </>
  );
}

const providerColumns: readonly Column<ListedProvider>[] = [
  { head: "Provider", cell: ({ backend }) => backend.slice(backend.indexOf("/") + 1) },
  { head: "Priority", isNumber: true, cell: ({ priority }) => formatCount(priority) },
  { head: "Weight", isNumber: true, cell: ({ weight }) => formatCount(weight) },
  { head: "State", cell: (provider) => <ProviderState provider={provider} /> },
];

function Providers({ backend: { key, failover } }: { backend: DumpedBackend }) {
  if (failover === undefined) return null;
  return (
    <DataTable
      caption={`Providers of ${key}`}
      columns={providerColumns}
      rows={failover.providers}
      keyOf={({ backend }) => backend}
      toneOf={({ state }) => (state === "Available" ? undefined : "bad")}
    />
  );
}

function ProviderState({ provider: { state, forMs } }: { provider: ListedProvider }) {
  if (state === "Available" || forMs === undefined) return <>available</>;
  return (
    <span class="bad">
      {state === "OutOfQuota" ? "out of quota" : "fails"}: no requests for {formatMs(forMs)}
    </span>
  );
}

function BackendEndpoints({ backend: { key, endpoints } }: { backend: DumpedBackend }) {
  if (endpoints.length === 0) return <p class="notice bad">No endpoint is ready: requests get a 503 response.</p>;
  return <Endpoints caption={`Endpoints of ${key}`} endpoints={endpoints} />;
}

/** Returns the keys of backends that policies name and rules do not. */
function rateLimitServices({ policies, routes }: ConfigDump): ReadonlySet<string> {
  const services = policies.flatMap(({ global }) => (global === undefined ? [] : [global.service]));
  const called = routes.flatMap(({ rules }) =>
    rules.flatMap(({ backendRefs }) => backendRefs.map(({ backend }) => backend)),
  );
  return new Set(services).difference(new Set(called));
}

function kindOf({ key, type }: DumpedBackend): string {
  return key.startsWith("address/") ? "Address" : type;
}

function isIll({ endpoints, failover }: DumpedBackend): boolean {
  const isParked = failover?.providers.some(({ state }) => state !== "Available") === true;
  return endpoints.length === 0 || isParked || endpoints.some(isFailing);
}

function describeModel({ name, as }: { readonly name: string; readonly as: string }): string {
  return name === as ? name : `${name} as ${as}`;
}

function describeBackend({ protocol, serverName, ai, failover }: DumpedBackend): string {
  if (failover !== undefined) return "LLM providers that replace each other: the lowest priority first, then by weight";
  const parts = [protocol === "https" ? "HTTPS" : "HTTP without TLS"];
  if (serverName !== undefined) parts.push(`certificate verified for ${serverName}`);
  if (ai !== undefined) {
    parts.push(`LLM provider ${ai.provider}${ai.model === undefined ? "" : `, model ${ai.model}`}`);
    if (ai.models !== undefined) parts.push(`models ${ai.models.map(describeModel).join("; ")}`);
    parts.push(ai.credentials === "secret" ? "key from a Secret" : "the client's own key");
  }
  return parts.join(", ");
}
