/** The way of a request: address, listener, route, rule, backend. Above it, what is wrong with the configuration. */
import type { ConfigDump, DumpedBind, DumpedRoute, DumpedRule } from "@gatewayproxy/admin-api/config-dump";
import { useState } from "preact/hooks";
import { formatMs } from "../format.ts";
import { Conditions } from "../parts/conditions.tsx";
import { Endpoints } from "../parts/endpoints.tsx";

export function TrafficPage({ dump }: { dump: ConfigDump }) {
  const [wanted, setWanted] = useState("");
  const routes = dump.routes.filter((route) => mentions(route, wanted));
  return (
    <>
      <Problems config={dump.config} />
      <Conflicts conflicts={dump.conflicts} />
      <Gateways gateways={dump.gateways} />
      <label for="wanted">Show routes with this name, host or path</label>
      <input id="wanted" type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
      {dump.binds.length === 0 && <p class="failure">No address is served.</p>}
      {dump.binds.map((bind) => (
        <Bind key={bind.key} bind={bind} routes={routes} dump={dump} />
      ))}
    </>
  );
}

function Problems({ config: { problems, notServed } }: { config: ConfigDump["config"] }) {
  if (problems.length === 0 && notServed.length === 0) return null;
  return (
    <section aria-label="Problems" class="problems">
      <h3>Not as written</h3>
      <ul>
        {problems.map(({ message, resource, path, location: place }, index) => (
          <li key={index}>
            {resource !== undefined && <strong>{resource} </strong>}
            {path !== undefined && <code>{path}</code>} {message}
            {place !== undefined && <span class="note"> {`${place.file}:${place.line}:${place.column}`}</span>}
          </li>
        ))}
        {notServed.map(({ resource, of, reason, message }, index) => (
          <li key={`left out ${index}`}>
            <strong>{resource}</strong> {of} is not served ({reason}): {message}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Rules that others go before; those that no request reaches come first. */
function Conflicts({ conflicts: { rules, leftOut, unexaminedHostnames } }: Pick<ConfigDump, "conflicts">) {
  if (rules.length === 0 && unexaminedHostnames === 0) return null;
  const sorted = [...rules].sort((a, b) => Number(a.isReachable) - Number(b.isReachable));
  return (
    <section aria-label="Conflicts" class="problems">
      <h3>Routes in conflict</h3>
      <ul>
        {sorted.map(({ route, rule, message }) => (
          <li key={rule}>
            <strong>HTTPRoute {route}</strong>: {message}
          </li>
        ))}
        {leftOut > 0 && <li>and {leftOut} more rules</li>}
        {unexaminedHostnames > 0 && <li>{unexaminedHostnames} hostnames have too many matches to look for more</li>}
      </ul>
    </section>
  );
}

function Gateways({ gateways }: Pick<ConfigDump, "gateways">) {
  if (gateways.length === 0) return null;
  return (
    <section aria-label="Gateways">
      {gateways.map(({ namespace, name, conditions }) => (
        <div key={`${namespace}/${name}`}>
          <h3>
            Gateway {namespace}/{name}
          </h3>
          <Conditions conditions={conditions} />
        </div>
      ))}
    </section>
  );
}

function Bind({ bind, routes, dump }: { bind: DumpedBind; routes: readonly DumpedRoute[]; dump: ConfigDump }) {
  return (
    <section aria-label={`Address ${bind.key}`}>
      <h3>
        <code>{bind.key}</code> {!bind.isOpen && <span class="bad">not open: {bind.fault}</span>}
      </h3>
      {bind.listeners.map((listener) => (
        <div key={listener.key} class="listener">
          <h4>
            {listener.protocol} listener {listener.name} of {listener.gateway.namespace}/{listener.gateway.name}
            <span class="note"> {listener.hostname ?? "every host"}</span>
          </h4>
          {listener.routes.length === 0 && <p class="note">No route is attached: requests are answered with 404.</p>}
          {listener.routes.map(({ route: key, hostnames }) => {
            const route = routes.find((each) => each.key === key);
            return route && <Route key={key} route={route} hostnames={hostnames} dump={dump} />;
          })}
        </div>
      ))}
    </section>
  );
}

function Route({ route, hostnames, dump }: { route: DumpedRoute; hostnames: readonly string[]; dump: ConfigDump }) {
  return (
    <details>
      <summary>
        <strong>{route.key}</strong> <span class="note">{hostnames.join(", ") || "every host"}</span>
      </summary>
      {route.parents.map(({ parent, conditions }) => (
        <Conditions key={parent} conditions={conditions} />
      ))}
      {route.rules.map((rule) => (
        <Rule key={rule.key} rule={rule} dump={dump} />
      ))}
    </details>
  );
}

function Rule({ rule, dump }: { rule: DumpedRule; dump: ConfigDump }) {
  const { timeouts } = rule;
  return (
    <div class="rule">
      <ul class="matches">
        {rule.matches.map((match, index) => (
          <li key={index}>
            <code>{describeMatch(match)}</code>
          </li>
        ))}
      </ul>
      {rule.filters.length > 0 && <p class="note">{rule.filters.map(({ kind }) => kind).join(", ")}</p>}
      {timeouts?.requestMs !== undefined && <p class="note">ends after {formatMs(timeouts.requestMs)}</p>}
      {rule.limits.length > 0 && (
        <p class="note">
          limited by {[...new Set(rule.limits.map(({ policy, target }) => `${policy} on ${target}`))].join(", ")} (
          <a href="#limits">counters</a>)
        </p>
      )}
      {rule.backendRefs.map(({ backend: key, weight, fault }, index) => (
        <Endpoints
          key={index}
          caption={`Weight ${weight} to ${key ?? "nowhere"}${fault === undefined ? "" : `: ${fault}`}`}
          endpoints={dump.backends.find((backend) => backend.key === key)?.endpoints ?? []}
        />
      ))}
    </div>
  );
}

function describeMatch({ path, method, headers, query }: DumpedRule["matches"][number]): string {
  const values = [...headers, ...query].map(
    ({ kind, name, value }) => `${name}${kind === "Exact" ? "=" : "~"}${value}`,
  );
  const pathText = path.kind === "PathPrefix" ? `${path.value.replace(/\/$/, "")}/*` : path.value;
  return [method ?? "any method", path.kind === "RegularExpression" ? `~${pathText}` : pathText, ...values].join(" ");
}

function mentions(route: DumpedRoute, wanted: string): boolean {
  if (wanted === "") return true;
  const paths = route.rules.flatMap(({ matches }) => matches.map(({ path }) => path.value));
  return [route.key, ...route.hostnames, ...paths].some((text) => text.includes(wanted));
}
