/** Every limit with what it stands at, those nearest to their end first, and how the rate limit services are. */
import type { ConfigDump, DumpedPolicy } from "@gatewayproxy/admin-api/config-dump";
import type { LearnedLimit, Limits, RateLimitService } from "@gatewayproxy/admin-api/limits";
import type { Denial, Traffic } from "@gatewayproxy/admin-api/traffic";
import { counted, formatCount, formatSeconds } from "../format.ts";
import { type Column, DataTable } from "../parts/data-table.tsx";
import { Empty } from "../parts/empty.tsx";
import { Failure } from "../parts/failure.tsx";
import { countedRows, LimitTable, untouchedRows } from "../parts/limit-table.tsx";
import { describeUnits } from "../parts/limit-words.ts";
import { usePolled } from "../polled.ts";

const limitsMs = 1000;
/** More rows than anybody reads; the server sorts them. */
const maxRows = 200;

export function LimitsPage({ dump, traffic }: { dump: ConfigDump; traffic: Traffic | undefined }) {
  const { answer, failure } = usePolled<Limits>(`/limits?max=${maxRows}`, limitsMs);
  if (dump.policies.length === 0) return <NoLimits />;
  return (
    <>
      <Failure failure={failure} />
      {answer === undefined ? (
        <p>Asking the proxy…</p>
      ) : (
        <>
          <Counters limits={answer} policies={dump.policies} traffic={traffic} />
          <GlobalLimits policies={dump.policies} denials={traffic?.denials ?? []} />
          <Services services={answer.services} at={answer.at} />
          <Learned limits={answer.learned} />
        </>
      )}
    </>
  );
}

function NoLimits() {
  return (
    <Empty title="Nothing is limited.">
      <p>
        There is no ProxyPolicy. One that names an HTTPRoute or a Gateway limits its requests or its tokens, and shows
        here with what is used.
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
      <Empty title="No local limit is in force.">
        <p>
          <a href="#policies">Policies</a> says where each policy is attached, and why not.
        </p>
      </Empty>
    );
  }
  return (
    <>
      <p class="note">
        {counters.length === 0
          ? "Nothing is counted at the moment: every limit has its whole budget."
          : "Of this replica, those nearest to their end first."}
      </p>
      <LimitTable caption="Local limits" rows={rows} denials={traffic?.denials} />
      {leftOut > 0 && <p class="note">{counted(leftOut, "counter")} more, further from their end, not shown.</p>}
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
      global.descriptors.map(({ index, counts, entries }) => (
        <div key={index}>
          {counts} for each <code>{entries.map(({ key }) => key).join(", ")}</code>
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

/** Of the policy's global limit as a whole: which descriptor decided is the service's to know. */
function globalDenied(denials: readonly Denial[]): Column<GlobalRow> {
  return {
    head: "Denied here since start",
    isNumber: true,
    cell(row) {
      const found = denials.find(
        ({ policy, target, entry }) => policy === row.policy && target === row.target && entry === undefined,
      );
      return formatCount(found?.denied ?? 0);
    },
  };
}

/** The figures of global limits are the service's; here is what is asked of it. */
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

/** @param at when the services were asked, for how long ago things were. */
function Services({ services, at }: { services: readonly RateLimitService[]; at: string }) {
  if (services.length === 0) return null;
  const columns: readonly Column<RateLimitService>[] = [
    { head: "Service", cell: ({ service }) => <code>{service}</code> },
    { head: "State", cell: (service) => <ServiceState service={service} at={at} /> },
    { head: "For", isNumber: true, cell: ({ since }) => <Ago time={since} at={at} /> },
    {
      head: "Token charges waiting",
      isNumber: true,
      cell: ({ chargesBuffered }) => formatCount(chargesBuffered),
    },
    {
      head: "Refusals remembered",
      isNumber: true,
      cell: ({ refusalsRemembered }) => formatCount(refusalsRemembered),
    },
    { head: "Limits learned", isNumber: true, cell: ({ limitsLearned }) => formatCount(limitsLearned) },
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
        <Answering failuresInARow={service.failuresInARow} />
      ) : (
        <>
          <strong class="bad">away{workers > 1 && ` for ${openOn} of ${workers} workers`}</strong>: no request waits for
          it, failure modes decide
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

/** A service may fail without being away: the first times, or by refusing every call as such. */
function Answering({ failuresInARow }: { failuresInARow: number }) {
  if (failuresInARow === 0) return <span class="good">answers</span>;
  return <strong class="warn">failed {counted(failuresInARow, "time")} in a row</strong>;
}

/** How long before `at` a time was; the time itself for who points at it. */
function Ago({ time, at }: { time: string; at: string }) {
  const seconds = Math.max(0, (Date.parse(at) - Date.parse(time)) / 1000);
  return (
    <time dateTime={time} title={time}>
      {formatSeconds(seconds)}
    </time>
  );
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
      caption="Limits that services have reported, enforced here while they are away"
      columns={learnedColumns}
      rows={limits}
      keyOf={(limit) => JSON.stringify([limit.policy, limit.target, limit.service, describeDescriptor(limit)])}
    />
  );
}

function describeDescriptor({ descriptor }: LearnedLimit): string {
  return descriptor.map(({ key, value }) => `${key}=${value.text}`).join(" ");
}
