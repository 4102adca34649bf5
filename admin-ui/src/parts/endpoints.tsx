/** How the endpoints of backends do: the columns of `proxyctl config backends`, and what more there is to see. */
import type { EndpointState } from "@gatewayproxy/admin-api/config-dump";
import { formatMs } from "../format.ts";
import { type Column, DataTable } from "./data-table.tsx";

const columns: readonly Column[] = [
  { head: "Endpoint" },
  { head: "Address" },
  { head: "Health" },
  { head: "Requests", isNumber: true },
  { head: "Failed in a row", isNumber: true },
  { head: "In flight", isNumber: true },
  { head: "Latency", isNumber: true },
];

export function Endpoints({ caption, endpoints }: { caption: string; endpoints: readonly EndpointState[] }) {
  return (
    <DataTable
      label={caption}
      caption={caption}
      columns={columns}
      rows={endpoints.map((each) => <Row key={`${each.endpoint} ${each.address}`} endpoint={each} />)}
    >
      {endpoints.length === 0 && <p class="failure">No endpoint is ready: requests are answered with 503.</p>}
    </DataTable>
  );
}

function Row({ endpoint }: { endpoint: EndpointState }) {
  const { health, ejectedForMs, failsHealthChecks } = endpoint;
  return (
    <tr>
      <th scope="row">{endpoint.endpoint}</th>
      <td>
        <code>{endpoint.address}</code>
      </td>
      <td>
        <meter min={0} max={1} low={0.5} high={0.9} optimum={1} value={health} aria-hidden="true" /> {health.toFixed(2)}
        {failsHealthChecks && <span class="bad"> fails its health checks</span>}
        {ejectedForMs !== undefined && <span class="bad"> left out for {formatMs(ejectedForMs)}</span>}
      </td>
      <td class="number">{endpoint.requests.toLocaleString("en")}</td>
      <td class="number">{endpoint.consecutiveFailures.toLocaleString("en")}</td>
      <td class="number">{endpoint.inFlight}</td>
      <td class="number">{endpoint.latencyMs === undefined ? "–" : formatMs(endpoint.latencyMs)}</td>
    </tr>
  );
}
