/** Live counters, those nearest to exhaustion first, and how the rate limit services are. */
import type { LimitCounter, Limits, RateLimitService } from "@gatewayproxy/admin-api/limits";
import { formatSeconds } from "../format.ts";
import { type Column, DataTable } from "../parts/data-table.tsx";
import { Failure } from "../parts/failure.tsx";
import { usePolled } from "../polled.ts";

const limitsMs = 1000;

export function LimitsPage() {
  const { answer, failure } = usePolled<Limits>("/limits", limitsMs);
  return (
    <>
      {failure !== undefined && <Failure message={failure} />}
      {answer !== undefined && (
        <>
          <Counters counters={answer.counters} leftOut={answer.countersLeftOut} />
          <Services services={answer.services} at={answer.at} />
          <Learned limits={answer.learned} />
        </>
      )}
    </>
  );
}

const counterColumns: readonly Column[] = [
  { head: "Policy" },
  { head: "Target" },
  { head: "Key" },
  { head: "Used" },
  { head: "Remaining", isNumber: true },
  { head: "Reset in", isNumber: true },
];

function Counters({ counters, leftOut }: { counters: readonly LimitCounter[]; leftOut: number }) {
  if (counters.length === 0) return <p>Nothing is counted at the moment: every budget is full.</p>;
  return (
    <DataTable
      label="Counters"
      caption="Counters of this replica"
      columns={counterColumns}
      rows={counters.map((counter) => <Counter key={keyOf(counter)} counter={counter} />)}
    >
      {leftOut > 0 && <p class="note">{leftOut.toLocaleString("en")} more counters are not shown.</p>}
    </DataTable>
  );
}

function Counter({ counter }: { counter: LimitCounter }) {
  const { policy, target, entry, counts, unit, source, mode, key, used, limit, remaining, resetSeconds } = counter;
  return (
    <tr class={remaining === 0 ? "exhausted" : undefined}>
      <th scope="row">
        {policy} <span class="note">{source === "fallback" ? `fallback[${entry}]` : `local[${entry}]`}</span>
      </th>
      <td>
        <code>{target}</code>
      </td>
      <td>{key === undefined ? <span class="note">all requests</span> : <code>{key.text}</code>}</td>
      <td>
        <meter min={0} max={limit} low={limit * 0.8} high={limit * 0.99} optimum={0} value={used} aria-hidden="true" />{" "}
        {used.toLocaleString("en")} of {limit.toLocaleString("en")} {counts} per {unit.toLowerCase().slice(0, -1)}
        {mode === "Shadow" && " (shadow)"}
      </td>
      <td class="number">{remaining === 0 ? <strong class="bad">0</strong> : remaining.toLocaleString("en")}</td>
      <td class="number">{formatSeconds(resetSeconds)}</td>
    </tr>
  );
}

function keyOf({ policy, target, source, entry, key }: LimitCounter): string {
  return JSON.stringify([policy, target, source, entry, key?.text]);
}

const serviceColumns: readonly Column[] = [
  { head: "Service" },
  { head: "State" },
  { head: "For", isNumber: true },
  { head: "Charges waiting", isNumber: true },
  { head: "Refusals remembered", isNumber: true },
  { head: "Limits learned", isNumber: true },
];

/** @param at when the services were asked, for how long ago things were. */
function Services({ services, at }: { services: readonly RateLimitService[]; at: string }) {
  if (services.length === 0) return null;
  return (
    <DataTable
      label="Rate limit services"
      caption="Rate limit services, over all workers"
      columns={serviceColumns}
      rows={services.map((each) => <Service key={each.service} service={each} at={at} />)}
    />
  );
}

function Service({ service, at }: { service: RateLimitService; at: string }) {
  const { breaker, openOn, workers, since, lastError } = service;
  return (
    <tr>
      <th scope="row">
        <code>{service.service}</code>
      </th>
      <td class="told">
        {breaker === "closed" ? (
          <Answering failuresInARow={service.failuresInARow} />
        ) : (
          <>
            <strong class="bad">away{workers > 1 && ` for ${openOn} of ${workers} workers`}</strong>: no request waits
            for it, failure modes decide
          </>
        )}
        {lastError !== undefined && (
          <div class="note">
            last error <Ago time={lastError.at} at={at} /> ago: {lastError.message}
          </div>
        )}
      </td>
      <td class="number">
        <Ago time={since} at={at} />
      </td>
      <td class="number">{service.chargesBuffered.toLocaleString("en")}</td>
      <td class="number">{service.refusalsRemembered.toLocaleString("en")}</td>
      <td class="number">{service.limitsLearned.toLocaleString("en")}</td>
    </tr>
  );
}

/** A service may fail without being away: the first times, or by refusing every call as such. */
function Answering({ failuresInARow }: { failuresInARow: number }) {
  if (failuresInARow === 0) return <span class="good">answers</span>;
  return <strong class="warn">failed {failuresInARow.toLocaleString("en")} times in a row</strong>;
}

/** How long before `at` a time was; the time itself for who points at it. */
function Ago({ time, at }: { time: string; at: string }) {
  const seconds = Math.max(0, Math.round((Date.parse(at) - Date.parse(time)) / 1000));
  return (
    <time dateTime={time} title={time}>
      {formatSeconds(seconds)}
    </time>
  );
}

const learnedColumns: readonly Column[] = [
  { head: "Policy" },
  { head: "Target" },
  { head: "Descriptor" },
  { head: "Limit" },
  { head: "Service" },
];

function Learned({ limits }: { limits: Limits["learned"] }) {
  if (limits.length === 0) return null;
  return (
    <DataTable
      label="Learned limits"
      caption="Limits that services have reported"
      columns={learnedColumns}
      rows={limits.map((each, index) => (
        <tr key={index}>
          <th scope="row">{each.policy}</th>
          <td>
            <code>{each.target}</code>
          </td>
          <td>
            <code>{each.descriptor.map(({ key, value }) => `${key}=${value.text}`).join(" ")}</code>
          </td>
          <td>
            {each.limit.toLocaleString("en")} {each.counts} in {formatSeconds(each.windowSeconds)}
          </td>
          <td>
            <code>{each.service}</code>
          </td>
        </tr>
      ))}
    />
  );
}
