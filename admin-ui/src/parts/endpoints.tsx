/** The state of endpoints: the columns of `proxyctl config backends`, and more. */
import type { EndpointState } from "@gatewayproxy/admin-api/config-dump";
import { formatCount, formatMs } from "../format.ts";
import { type Column, DataTable } from "./data-table.tsx";
import { Gauge } from "./gauge.tsx";

const endpointColumn: Column<EndpointState> = { head: "Endpoint", cell: ({ endpoint }) => endpoint };

const backendColumn: Column<EndpointState> = {
  head: "Backend",
  cell: ({ type, namespace, name }) => `${type} ${namespace}/${name}`,
};

const columns: readonly Column<EndpointState>[] = [
  { head: "Address", cell: ({ address }) => <code>{address}</code> },
  { head: "Health", cell: (endpoint) => <Health endpoint={endpoint} /> },
  { head: "Requests", isNumber: true, cell: ({ requests }) => formatCount(requests) },
  {
    head: "Failures in a row",
    isNumber: true,
    cell: ({ consecutiveFailures }) => formatCount(consecutiveFailures),
  },
  { head: "In progress", isNumber: true, cell: ({ inFlight }) => formatCount(inFlight) },
  {
    head: "Latency",
    isNumber: true,
    cell: ({ latencyMs }) => (latencyMs === undefined ? "–" : formatMs(latencyMs)),
  },
];

/** Below this health, attempts fail so often that the endpoint needs attention. */
const poorHealth = 0.5;

/** A table of endpoints. */
export function Endpoints(props: {
  caption: string;
  endpoints: readonly EndpointState[];
  /** Whether the endpoints belong to several backends, so that each is named. */
  areMixed?: boolean;
}) {
  const { caption, endpoints, areMixed = false } = props;
  return (
    <DataTable
      caption={caption}
      columns={[...(areMixed ? [backendColumn] : []), endpointColumn, ...columns]}
      rows={endpoints}
      keyOf={({ type, namespace, name, endpoint, address }) => `${type} ${namespace} ${name} ${endpoint} ${address}`}
      toneOf={(endpoint) => (isFailing(endpoint) ? "bad" : undefined)}
    />
  );
}

/** Whether attempts at the endpoint fail, or it is ejected because they did. */
export function isFailing({ health, failsHealthChecks, ejectedForMs }: EndpointState): boolean {
  return health < poorHealth || failsHealthChecks || ejectedForMs !== undefined;
}

function Health({ endpoint }: { endpoint: EndpointState }) {
  const { health, ejectedForMs, failsHealthChecks, requests } = endpoint;
  return (
    <>
      <Gauge share={health} tone={health < poorHealth ? "bad" : health < 0.9 ? "warn" : "good"} />{" "}
      {requests === 0 && !isFailing(endpoint) ? "not called yet" : health.toFixed(2)}
      {failsHealthChecks && <div class="bad">fails its health checks</div>}
      {ejectedForMs !== undefined && <div class="bad">gets no requests for {formatMs(ejectedForMs)}</div>}
    </>
  );
}
