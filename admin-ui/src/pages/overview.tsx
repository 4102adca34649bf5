/** The state of the proxy: traffic first, then what needs attention. */
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import type { Limits } from "@gatewayproxy/admin-api/limits";
import type { Traffic, TrafficRoute } from "@gatewayproxy/admin-api/traffic";
import { counted, formatCount, formatRate, formatSeconds } from "../format.ts";
import { type Column, DataTable } from "../parts/data-table.tsx";
import { Empty } from "../parts/empty.tsx";
import { Endpoints, isFailing } from "../parts/endpoints.tsx";
import { Failure } from "../parts/failure.tsx";
import { countedRows, LimitTable } from "../parts/limit-table.tsx";
import { Conflicts, Problems } from "../parts/problems.tsx";
import { UnsavedCounters } from "../parts/saved-counters.tsx";
import { TrafficPlots } from "../parts/traffic-plots.tsx";
import { usePolled } from "../polled.ts";
import { spanBefore, type TrafficHistory } from "../traffic-history.ts";

const limitsMs = 2000;
const maxLimits = 5;
const maxRoutes = 10;

/** The overview page. */
export function OverviewPage({ dump, history }: { dump: ConfigDump; history: TrafficHistory }) {
  const traffic = history.at(-1);
  return (
    <>
      {traffic === undefined ? (
        <p>Loading…</p>
      ) : (
        <>
          {traffic.requests === 0 && <NoTraffic dump={dump} />}
          <TrafficPlots history={history} />
          <SinceStart traffic={traffic} />
        </>
      )}
      <NearLimits hasPolicies={dump.policies.length > 0} />
      <Backends backends={dump.backends} />
      <Configuration dump={dump} />
      {traffic !== undefined && traffic.routes.length > 0 && <BusiestRoutes history={history} traffic={traffic} />}
    </>
  );
}

function NoTraffic({ dump: { binds } }: { dump: ConfigDump }) {
  const open = binds.filter(({ isOpen }) => isOpen);
  return (
    <Empty title="No request has ended since the start.">
      <p>
        {open.length === 0
          ? "The proxy listens on no address, so no request can arrive."
          : `A request to ${open.map(({ key }) => key).join(" or ")} is shown here within seconds.`}
      </p>
    </Empty>
  );
}

function SinceStart({ traffic }: { traffic: Traffic }) {
  const { uptimeSeconds, requests, requestsInProgress, openConnections, statuses, reasons, tokens } = traffic;
  return (
    <section aria-label="Since the start">
      <h3>Since the start {formatSeconds(uptimeSeconds)} ago</h3>
      <p>
        {counted(requests, "request")}, {formatCount(requestsInProgress)} more in progress,{" "}
        {counted(openConnections, "open client connection")}. {counted(tokens.input, "input token")},{" "}
        {counted(tokens.output, "output token")}
        {tokens.other > 0 && `, ${counted(tokens.other, "other token")}`}
        {tokens.estimatedResponses > 0 && `, estimated in ${counted(tokens.estimatedResponses, "response")}`}.
      </p>
      <Counts
        title="Statuses"
        counts={statuses.map(({ status, requests: count }) => [status === 0 ? "no response" : String(status), count])}
      />
      <Counts
        title="Local replies and aborted requests"
        counts={reasons.map(({ reason, requests: count }) => [reason, count])}
      />
    </section>
  );
}

function Counts({ title, counts }: { title: string; counts: readonly (readonly [string, number])[] }) {
  if (counts.length === 0) return null;
  return (
    <div class="counts">
      <h4>{title}</h4>
      <dl>
        {counts.map(([name, count]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{formatCount(count)}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function NearLimits({ hasPolicies }: { hasPolicies: boolean }) {
  const { data, failure } = usePolled<Limits>(`/limits?max=${maxLimits}`, limitsMs);
  if (!hasPolicies) {
    return (
      <section aria-label="Limits">
        <h3>Limits</h3>
        <p>There is no ProxyPolicy, so nothing is limited.</p>
      </section>
    );
  }
  const away = data?.services.filter(({ breaker }) => breaker === "open") ?? [];
  return (
    <section aria-label="Limits">
      <h3>Most used limits</h3>
      <Failure failure={failure} />
      {away.map(({ service, cause = "it does not respond" }) => (
        <p key={service} class="notice bad">
          Rate limit service <code>{service}</code> is unavailable: {cause}
        </p>
      ))}
      {data?.state !== undefined && <UnsavedCounters state={data.state} at={data.at} />}
      {data?.counters.length === 0 && <p>No window is open: every limit has its full amount.</p>}
      {data !== undefined && data.counters.length > 0 && (
        <LimitTable caption="Local limits, in this replica" rows={countedRows(data.counters)} />
      )}
      <p>
        <a href="#limits">All limits</a>
        {data !== undefined && data.countersLeftOut > 0 && `, ${counted(data.countersLeftOut, "counter")} more`}
      </p>
    </section>
  );
}

function Backends({ backends }: Pick<ConfigDump, "backends">) {
  const endpoints = backends.flatMap((backend) => backend.endpoints);
  const failing = endpoints.filter(isFailing);
  const empty = backends.filter((backend) => backend.endpoints.length === 0);
  return (
    <section aria-label="Backends">
      <h3>Backends</h3>
      {empty.map(({ key }) => (
        <p key={key} class="notice bad">
          <code>{key}</code> has no ready endpoint: requests to it get a 503 response.
        </p>
      ))}
      {failing.length > 0 && <Endpoints caption="Failing endpoints" endpoints={failing} areMixed />}
      <p>
        {failing.length === 0 && empty.length === 0
          ? describeHealthy(endpoints.length, backends.length)
          : `${endpoints.length - failing.length} of ${counted(endpoints.length, "endpoint")} without failures.`}{" "}
        <a href="#backends">All backends</a>
      </p>
    </section>
  );
}

function describeHealthy(endpoints: number, backends: number): string {
  if (backends === 0) return "No rule in use names a backend.";
  return `No endpoint is failing: ${counted(endpoints, "endpoint")} of ${counted(backends, "backend")}.`;
}

function Configuration({ dump }: { dump: ConfigDump }) {
  const { config, binds, gateways, routes, conflicts } = dump;
  const late = config.workers.filter(({ generation }) => generation !== config.generation);
  const closed = binds.filter(({ isOpen }) => !isOpen);
  const isFine = config.problems.length + config.notServed.length + conflicts.rules.length + closed.length === 0;
  return (
    <section aria-label="Configuration">
      <h3>Configuration</h3>
      <p>
        {isFine && <strong class="good">Accepted, without problems. </strong>}
        Generation {config.generation} of <code>{config.source}</code>
        {config.servingSince !== undefined && (
          <>
            , in force since{" "}
            <time dateTime={config.servingSince}>{config.servingSince.slice(0, 19).replace("T", " ")} UTC</time>
          </>
        )}
        : {counted(gateways.length, "Gateway")}, {counted(routes.length, "route")},{" "}
        {counted(dump.policies.length, "policy", "policies")}.
      </p>
      {closed.map(({ key, fault }) => (
        <p key={key} class="notice bad">
          Address <code>{key}</code> does not listen: {fault}
        </p>
      ))}
      {late.length > 0 && (
        <p class="notice warn">
          {late.length} of {counted(config.workers.length, "worker")} still serve an earlier generation.
        </p>
      )}
      {config.workerDeaths.map(({ worker, count, lastAt, lastCause }) => (
        <p key={worker} class="notice warn">
          Worker {worker} failed {counted(count, "time")}, last at {lastAt}: {lastCause}
        </p>
      ))}
      <Problems config={config} />
      <Conflicts conflicts={conflicts} />
    </section>
  );
}

interface RouteRow extends TrafficRoute {
  /** In the last minute; undefined with only one response. */
  readonly perSecond: number | undefined;
  readonly recentTokens: number | undefined;
}

const routeColumns: readonly Column<RouteRow>[] = [
  { head: "Route", cell: ({ route }) => (route === "" ? "no route matched" : route) },
  {
    head: "Requests per second",
    isNumber: true,
    cell: ({ perSecond }) => (perSecond === undefined ? "–" : formatRate(perSecond)),
  },
  { head: "Requests", isNumber: true, cell: ({ requests }) => formatCount(requests) },
  { head: "Responses 4xx", isNumber: true, cell: ({ clientErrors }) => formatCount(clientErrors) },
  { head: "Responses 5xx", isNumber: true, cell: ({ serverErrors }) => formatCount(serverErrors) },
  { head: "Denied by limits", isNumber: true, cell: ({ denied }) => formatCount(denied) },
  { head: "Tokens", isNumber: true, cell: ({ tokens }) => formatCount(tokens) },
  {
    head: "Tokens in the last minute",
    isNumber: true,
    cell: ({ recentTokens }) => (recentTokens === undefined ? "–" : formatCount(recentTokens)),
  },
];

function BusiestRoutes({ history, traffic }: { history: TrafficHistory; traffic: Traffic }) {
  const span = spanBefore(history, 60);
  const rows = traffic.routes.map((route): RouteRow => {
    const before = span?.from.routes.find((each) => each.route === route.route);
    return {
      ...route,
      perSecond: span && (route.requests - (before?.requests ?? 0)) / span.seconds,
      recentTokens: span && Math.max(0, route.tokens - (before?.tokens ?? 0)),
    };
  });
  const busiest = rows.sort((a, b) => (b.perSecond ?? 0) - (a.perSecond ?? 0)).slice(0, maxRoutes);
  const others = traffic.routes.length + traffic.routesLeftOut - busiest.length;
  return (
    <section aria-label="Busiest routes">
      <h3>Busiest routes</h3>
      <DataTable
        caption="Figures since the start, rates of the last minute"
        columns={routeColumns}
        rows={busiest}
        keyOf={({ route }) => route}
      />
      {others > 0 && <p class="note">{counted(others, "more route")} with traffic</p>}
    </section>
  );
}
