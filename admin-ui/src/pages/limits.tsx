/** Every limit with its usage, most used first, and the state of the rate limit services. */
import type { ConfigDump, DumpedPolicy } from "@gatewayproxy/admin-api/config-dump";
import type { LearnedLimit, Limits, RateLimitService } from "@gatewayproxy/admin-api/limits";
import type { Denial, Traffic } from "@gatewayproxy/admin-api/traffic";
import { counted, formatCount, formatSeconds } from "../format.ts";
import { Ago } from "../parts/ago.tsx";
import { type Column, DataTable } from "../parts/data-table.tsx";
import { Empty } from "../parts/empty.tsx";
import { Failure } from "../parts/failure.tsx";
import { countedRows, LimitTable, untouchedRows } from "../parts/limit-table.tsx";
import { describeDescriptorTerms, describeUnits } from "../parts/limit-words.ts";
import { SavedCounters } from "../parts/saved-counters.tsx";
import { usePolled } from "../polled.ts";

const limitsMs = 1000;
/** The number of rows to request: more than anyone reads. The server sorts them. */
const maxRows = 200;

/** The page of limits and rate limit services. */
export function LimitsPage({ dump, traffic }: { dump: ConfigDump; traffic: Traffic | undefined }) {
  const { data, failure } = usePolled<Limits>(`/limits?max=${maxRows}`, limitsMs);
  if (dump.policies.length === 0) return <NoLimits />;
  return (
    <>
      <Failure failure={failure} />
      {data === undefined ? (
        <p>Loading…</p>
      ) : (
        <>
          <Counters limits={data} policies={dump.policies} traffic={traffic} />
          <SavedCounters state={data.state} at={data.at} />
          <GlobalLimits policies={dump.policies} denials={traffic?.denials ?? []} />
          <Services services={data.services} at={data.at} />
          <Learned limits={data.learned} />
        </>
      )}
    </>
  );
}

function NoLimits() {
  return (
    <Empty title="Nothing is limited.">
      <p>
        There is no ProxyPolicy. One that names a route or a Gateway limits its requests or its tokens, and shows here
        with what is used.
      </p>
    </Empty>
  );
}

function Counters(props: { limits: Limits; policies: readonly DumpedPolicy[]; traffic: Traffic | undefined }) {
  const { limits, policies, traffic } = props;
  const { counters, countersLeftOut } = limits;
  const all = [...countedRows(counters), ...untouchedRows(policies, counters)];
  const rows = all.slice(0, maxRows);
  const leftOut = countersLeftOut + all.length - rows.length;
  if (all.length === 0) {
    return (
      <Empty title="No local limit is in effect.">
        <p>
          <a href="#policies">Policies</a> shows where each policy is attached, or why not.
        </p>
      </Empty>
    );
  }
  return (
    <>
      <p class="note">
        {counters.length === 0
          ? "No window is open: every limit has its full amount."
          : "Of this replica, those with the least remaining first."}
      </p>
      <LimitTable caption="Local limits" rows={rows} denials={traffic?.denials} />
      {leftOut > 0 && <p class="note">{counted(leftOut, "counter")} more, with more remaining, not shown.</p>}
    </>
  );
}

interface GlobalRow {
  readonly policy: string;
  readonly target: string;
  readonly global: NonNullable<DumpedPolicy["global"]>;
}

const globalColumns: readonly Column<GlobalRow>[] = [
  { head: "Policy", cell: ({ policy }) => policy },
  { head: "Applies to", cell: ({ target }) => <code>{target}</code> },
  {
    head: "Counts",
    cell: ({ global }) =>
      global.descriptors.map((descriptor) => (
        <div key={descriptor.index}>
          {descriptor.counts} for each <code>{descriptor.entries.map(({ key }) => key).join(", ")}</code>
          {describeDescriptorTerms(descriptor).map((term) => `, ${term}`)}
        </div>
      )),
  },
  {
    head: "Counted by",
    cell: ({ global: { service, domain } }) => (
      <>
        <code>{service}</code>, domain <code>{domain}</code>
      </>
    ),
  },
];

/** Counts the policy's global limit as a whole: only the service knows which descriptor decided. */
function globalDenied(denials: readonly Denial[]): Column<GlobalRow> {
  return {
    head: "Denied here since start",
    isNumber: true,
    cell(row) {
      const found = denials.find(
        ({ policy, target, counts }) => policy === row.policy && target === row.target && counts === undefined,
      );
      return formatCount(found?.denied ?? 0);
    },
  };
}

/** The figures of global limits are in the service; this shows what is sent to it. */
function GlobalLimits({ policies, denials }: { policies: readonly DumpedPolicy[]; denials: readonly Denial[] }) {
  const rows = policies.flatMap(({ namespace, name, targets, global }) =>
    global === undefined
      ? []
      : targets
          .filter(({ isAttached }) => isAttached)
          .map(({ target }): GlobalRow => ({ policy: `${namespace}/${name}`, target, global })),
  );
  if (rows.length === 0) return null;
  return (
    <DataTable
      caption="Global limits, which a rate limit service counts for all replicas"
      columns={[...globalColumns, globalDenied(denials)]}
      rows={rows}
      keyOf={({ policy, target }) => `${policy} ${target}`}
    />
  );
}

/** @param at when the response was made, for how long ago events were. */
function Services({ services, at }: { services: readonly RateLimitService[]; at: string }) {
  if (services.length === 0) return null;
  const columns: readonly Column<RateLimitService>[] = [
    { head: "Service", cell: ({ service }) => <code>{service}</code> },
    { head: "State", cell: (service) => <ServiceState service={service} at={at} /> },
    { head: "For", isNumber: true, cell: ({ since }) => <Ago time={since} at={at} /> },
    {
      head: "Token charges buffered",
      isNumber: true,
      cell: ({ chargesBuffered }) => formatCount(chargesBuffered),
    },
    {
      head: "Denials cached",
      isNumber: true,
      cell: ({ denialsCached }) => formatCount(denialsCached),
    },
    { head: "Learned limits", isNumber: true, cell: ({ limitsLearned }) => formatCount(limitsLearned) },
  ];
  return (
    <DataTable
      caption="Rate limit services, over all workers"
      columns={columns}
      rows={services}
      keyOf={({ service }) => service}
      toneOf={({ breaker }) => (breaker === "open" ? "bad" : undefined)}
    />
  );
}

function ServiceState({ service, at }: { service: RateLimitService; at: string }) {
  const { breaker, openOn, workers, lastError } = service;
  return (
    <>
      {breaker === "closed" ? (
        <CallState failuresInARow={service.failuresInARow} />
      ) : (
        <>
          <strong class="bad">unavailable{workers > 1 && ` for ${openOn} of ${workers} workers`}</strong>: requests do
          not wait for it, failure modes decide
        </>
      )}
      {lastError !== undefined && (
        <div class="note">
          last error <Ago time={lastError.at} at={at} /> ago: {lastError.message}
        </div>
      )}
    </>
  );
}

/** A service may fail without being unavailable: at its first failures, or if it rejects every call as invalid. */
function CallState({ failuresInARow }: { failuresInARow: number }) {
  if (failuresInARow === 0) return <span class="good">available</span>;
  return <strong class="warn">failed {counted(failuresInARow, "time")} in a row</strong>;
}

const learnedColumns: readonly Column<LearnedLimit>[] = [
  { head: "Policy", cell: ({ policy }) => policy },
  { head: "Applies to", cell: ({ target }) => <code>{target}</code> },
  { head: "Counted for", cell: (limit) => <code>{describeDescriptor(limit)}</code> },
  {
    head: "Limit",
    cell: ({ limit, counts, windowSeconds }) => `${describeUnits(limit, counts)} in ${formatSeconds(windowSeconds)}`,
  },
  { head: "Service", cell: ({ service }) => <code>{service}</code> },
];

function Learned({ limits }: { limits: readonly LearnedLimit[] }) {
  if (limits.length === 0) return null;
  return (
    <DataTable
      caption="Limits that services have reported, enforced here while they are unavailable"
      columns={learnedColumns}
      rows={limits}
      keyOf={(limit) => JSON.stringify([limit.policy, limit.target, limit.service, describeDescriptor(limit)])}
    />
  );
}

function describeDescriptor({ descriptor }: LearnedLimit): string {
  return descriptor.map(({ key, value }) => `${key}=${value.text}`).join(" ");
}
