/** Live counters, those nearest to exhaustion first, and how the rate limit services are. */
import type { LimitCounter, Limits, RateLimitService } from "@gatewayproxy/admin-api/limits";
import { formatSeconds } from "../format.ts";
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
          <Services services={answer.services} />
          <Learned limits={answer.learned} />
        </>
      )}
    </>
  );
}

function Counters({ counters, leftOut }: { counters: readonly LimitCounter[]; leftOut: number }) {
  if (counters.length === 0) return <p>Nothing is counted at the moment: every budget is full.</p>;
  return (
    <div class="scrolled" role="region" aria-label="Counters" tabIndex={0}>
      <table>
        <caption>Counters of this replica</caption>
        <thead>
          <tr>
            <th scope="col">Policy</th>
            <th scope="col">Target</th>
            <th scope="col">Key</th>
            <th scope="col">Used</th>
            <th scope="col" class="number">
              Remaining
            </th>
            <th scope="col" class="number">
              Reset in
            </th>
          </tr>
        </thead>
        <tbody>
          {counters.map((counter) => (
            <Counter key={keyOf(counter)} counter={counter} />
          ))}
        </tbody>
      </table>
      {leftOut > 0 && <p class="note">{leftOut.toLocaleString("en")} more counters are not shown.</p>}
    </div>
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

function Services({ services }: { services: readonly RateLimitService[] }) {
  if (services.length === 0) return null;
  return (
    <section aria-label="Rate limit services">
      <h3>Rate limit services</h3>
      <ul>
        {services.map((each) => (
          <li key={each.service}>
            <Service service={each} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Service({ service }: { service: RateLimitService }) {
  const { breaker, openOn, workers, since, cause, lastError } = service;
  const kept = [
    [service.chargesBuffered, "charges wait for it"],
    [service.refusalsRemembered, "refusals remembered"],
    [service.limitsLearned, "limits learned"],
  ] as const;
  return (
    <>
      <code>{service.service}</code>{" "}
      {breaker === "closed" ? (
        <span class="good">answers</span>
      ) : (
        <span class="bad">
          is away for {openOn} of {workers} workers, so local counters decide{cause !== undefined && `: ${cause}`}
        </span>
      )}{" "}
      <span class="note">
        since <time dateTime={since}>{since}</time>
      </span>
      {kept.map(([count, what]) => count > 0 && `; ${count.toLocaleString("en")} ${what}`)}
      {lastError !== undefined && (
        <>
          <br />
          <span class="note">
            last error at <time dateTime={lastError.at}>{lastError.at}</time>: {lastError.message}
          </span>
        </>
      )}
    </>
  );
}

function Learned({ limits }: { limits: Limits["learned"] }) {
  if (limits.length === 0) return null;
  return (
    <section aria-label="Learned limits">
      <h3>Limits that services have told of</h3>
      <ul>
        {limits.map((each, index) => (
          <li key={index}>
            {each.limit.toLocaleString("en")} {each.counts} in {formatSeconds(each.windowSeconds)} for{" "}
            <code>{each.descriptor.map(({ key, value }) => `${key}=${value.text}`).join(" ")}</code>{" "}
            <span class="note">
              {each.policy} by {each.service}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
