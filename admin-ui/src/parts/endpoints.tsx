/** How endpoints of backends do: the columns of `proxyctl config backends`, and what more there is to see. */
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
    head: "Calls failed in a row",
    isNumber: true,
    cell: ({ consecutiveFailures }) => formatCount(consecutiveFailures),
  },
  { head: "Under way", isNumber: true, cell: ({ inFlight }) => formatCount(inFlight) },
  {
    head: "Latency",
    isNumber: true,
    cell: ({ latencyMs }) => (latencyMs === undefined ? "–" : formatMs(latencyMs)),
  },
];

/** Below it, calls fail so often that somebody should look. */
const poorHealth = 0.5;

export function Endpoints(props: {
  caption: string;
  endpoints: readonly EndpointState[];
  /** Of several backends: each is named. */
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

/** Whether calls of the endpoint fail, or it gets none because they did. */
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
