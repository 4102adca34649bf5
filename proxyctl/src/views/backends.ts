/** `proxyctl config backends`: one row per endpoint. */
import type { DumpedBackend, EndpointState, ListedProvider } from "@gatewayproxy/admin-api/config-dump";
import type { Column } from "../output/table.ts";

/** An endpoint, or a backend without any. */
export interface BackendRow {
  readonly type: string;
  readonly name: string;
  readonly namespace: string;
  readonly endpoint: string;
  readonly state: EndpointState | undefined;
  /** The provider of the endpoint, in the row of a Backend with several providers. */
  readonly provider?: ListedProvider | undefined;
}

/** Stands for a missing value, as in kubectl. */
export const none = "<none>";

/** Returns rows sorted by type, namespace, name and endpoint. An endpoint of several backends appears once. */
export function backendRows(backends: readonly DumpedBackend[]): readonly BackendRow[] {
  const rows = new Map<string, BackendRow>();
  for (const { key, type, name, namespace, endpoints, failover } of backends) {
    const row = { type, name, namespace };
    if (endpoints.length === 0) rows.set(key, { ...row, endpoint: none, state: undefined });
    for (const state of endpoints) {
      rows.set(`${type}/${namespace}/${name} ${state.endpoint} ${state.address}`, {
        ...row,
        endpoint: state.endpoint,
        state,
        ...(failover && { provider: failover.providers.find((each) => nameOf(each) === state.endpoint) }),
      });
    }
  }
  return [...rows.values()].sort((a, b) => compare(orderOf(a), orderOf(b)));
}

/** The name of the Backend of a provider, whose key ends with it: `Backend/namespace/name`, with ` for …` behind it. */
function nameOf({ backend }: ListedProvider): string | undefined {
  return backend.split(/[/ ]/)[2];
}

/** Returns a line below the row of a provider that gets no requests now. */
export function backendNotes({ provider }: BackendRow): readonly string[] {
  if (provider?.forMs === undefined) return [];
  const seconds = (provider.forMs / 1_000).toFixed(1);
  if (provider.state === "OutOfQuota") return [`out of quota: gets no requests for another ${seconds}s`];
  return [`fails: gets no requests for another ${seconds}s while another provider is available`];
}

function orderOf({ type, namespace, name, endpoint, state }: BackendRow): readonly string[] {
  return [type, namespace, name, endpoint, state?.address ?? ""];
}

/** Compares field by field, in code point order. */
function compare(a: readonly string[], b: readonly string[]): number {
  const at = a.findIndex((text, index) => text !== b[index]);
  if (at === -1) return 0;
  return (a[at] ?? "") < (b[at] ?? "") ? -1 : 1;
}

/** The columns of `proxyctl config backends`. */
export const backendColumns: readonly Column<BackendRow>[] = [
  { head: "TYPE", cell: ({ type }) => type },
  { head: "NAME", whenNarrow: "wrap", cell: ({ name }) => name },
  { head: "NAMESPACE", whenNarrow: "wrap", cell: ({ namespace }) => namespace },
  { head: "ENDPOINT", whenNarrow: "wrap", cell: ({ endpoint }) => endpoint },
  { head: "HEALTH", cell: ({ state }) => (state?.health ?? 0).toFixed(2) },
  { head: "REQUESTS", cell: ({ state }) => String(state?.requests ?? 0) },
  { head: "LATENCY", cell: ({ state }) => renderLatency(state?.latencyMs) },
  {
    head: "PRIORITY",
    isWide: true,
    cell: ({ provider }) => (provider === undefined ? none : String(provider.priority)),
  },
  { head: "WEIGHT", isWide: true, cell: ({ provider }) => (provider === undefined ? none : String(provider.weight)) },
  { head: "ADDRESS", isWide: true, cell: ({ state }) => state?.address ?? none },
  { head: "IN-FLIGHT", isWide: true, cell: ({ state }) => String(state?.inFlight ?? 0) },
  { head: "FAILED-IN-A-ROW", isWide: true, cell: ({ state }) => String(state?.consecutiveFailures ?? 0) },
  { head: "PROBES", isWide: true, cell: ({ state }) => (state?.failsHealthChecks === true ? "failing" : "ok") },
  { head: "EJECTED", isWide: true, cell: ({ state }) => renderEjection(state?.ejectedForMs) },
];

/** Formats `12.34ms`, or `<none>` before the first response. */
export function renderLatency(ms: number | undefined): string {
  return ms === undefined ? none : `${ms.toFixed(2)}ms`;
}

function renderEjection(ms: number | undefined): string {
  return ms === undefined ? "no" : `${(ms / 1_000).toFixed(1)}s more`;
}
