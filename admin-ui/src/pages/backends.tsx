/** Every backend that rules and policies name, with its endpoints. */
import type { DumpedBackend } from "@gatewayproxy/admin-api/config-dump";
import { Endpoints } from "../parts/endpoints.tsx";

export function BackendsPage({ backends }: { backends: readonly DumpedBackend[] }) {
  if (backends.length === 0) return <p>No rule and no policy names a backend.</p>;
  return (
    <>
      {backends.map((backend) => (
        <section key={backend.key} aria-label={backend.key}>
          <h3>
            <span class="kind">{backend.type}</span> {backend.namespace}/{backend.name}
          </h3>
          <p class="note">{describe(backend)}</p>
          <Endpoints caption={`Endpoints of ${backend.key}`} endpoints={backend.endpoints} />
        </section>
      ))}
    </>
  );
}

function describe({ protocol, serverName, ai }: DumpedBackend): string {
  const parts = [protocol === "https" ? "TLS" : "Plain text"];
  if (serverName !== undefined) parts.push(`verified as ${serverName}`);
  if (ai !== undefined) {
    parts.push(`LLM provider ${ai.provider}${ai.model === undefined ? "" : `, model ${ai.model}`}`);
    parts.push(ai.credentials === "secret" ? "key from a Secret" : "the client's own key");
  }
  return parts.join(", ");
}
