/** The path of a request: address, listener, route, rule, backend. */
import type {
  ConfigDump,
  DumpedBackend,
  DumpedBind,
  DumpedRoute,
  DumpedRule,
} from "@gatewayproxy/admin-api/config-dump";
import { isMet } from "@gatewayproxy/admin-api/conditions";
import { backendLocalReply, type LocalReply, ruleLocalReply } from "@gatewayproxy/admin-api/local-reply";
import { useState } from "preact/hooks";
import { counted, formatMs } from "../format.ts";
import { Conditions } from "../parts/conditions.tsx";
import { Empty } from "../parts/empty.tsx";
import { Endpoints } from "../parts/endpoints.tsx";
import { Conflicts } from "../parts/problems.tsx";

/** The maximum number of routes shown per listener. */
const maxRoutes = 100;
/** Up to this number, the rules of each route are shown at once. */
const maxOpenRoutes = 3;

/** Parts of the dump, by key. */
interface Index {
  readonly routes: ReadonlyMap<string, DumpedRoute>;
  readonly backends: ReadonlyMap<string, DumpedBackend>;
}

/** The page of addresses, listeners and routes. */
export function RoutesPage({ dump }: { dump: ConfigDump }) {
  const [wanted, setWanted] = useState("");
  const index: Index = {
    routes: new Map(dump.routes.filter((route) => mentions(route, wanted)).map((route) => [route.key, route])),
    backends: new Map(dump.backends.map((backend) => [backend.key, backend])),
  };
  const notServed = [...index.routes.values()].filter(({ listeners }) => listeners.length === 0);
  return (
    <>
      <Conflicts conflicts={dump.conflicts} />
      <Gateways gateways={dump.gateways} />
      {dump.routes.length > 0 && (
        <div class="field">
          <label for="wanted">Show routes with this name, host or path</label>
          <input id="wanted" type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
          <p class="note" role="status">
            {index.routes.size} of {counted(dump.routes.length, "route")}
          </p>
        </div>
      )}
      {dump.binds.length === 0 && <NothingServed />}
      {dump.binds.map((bind) => (
        <Bind key={bind.key} bind={bind} index={index} />
      ))}
      {notServed.length > 0 && (
        <section aria-label="Routes that are not served" class="card">
          <h3>Not served</h3>
          {notServed.slice(0, maxRoutes).map((route) => (
            <Route key={route.key} route={route} hostnames={route.hostnames} index={index} isOpenAtFirst={false} />
          ))}
        </section>
      )}
    </>
  );
}

function NothingServed() {
  return (
    <Empty title="No address is served.">
      <p>
        This proxy has no Gateway with a programmed listener. <a href="#overview">Overview</a> lists what is not served,
        and why.
      </p>
    </Empty>
  );
}

function Gateways({ gateways }: Pick<ConfigDump, "gateways">) {
  if (gateways.length === 0) return null;
  return (
    <section aria-label="Gateways">
      {gateways.map(({ namespace, name, conditions }) => (
        <div key={`${namespace}/${name}`}>
          <h3>
            <span class="kind">Gateway</span> {namespace}/{name}
          </h3>
          <Conditions conditions={conditions} />
        </div>
      ))}
    </section>
  );
}

function Bind({ bind, index }: { bind: DumpedBind; index: Index }) {
  return (
    <section aria-label={`Address ${bind.key}`} class="card">
      <h3>
        <code>{bind.key}</code> {!bind.isOpen && <span class="bad">does not listen: {bind.fault}</span>}
      </h3>
      {bind.listeners.map((listener) => (
        <Listener key={listener.key} listener={listener} index={index} />
      ))}
    </section>
  );
}

function Listener({ listener, index }: { listener: DumpedBind["listeners"][number]; index: Index }) {
  const { protocol, name, gateway, hostname, routes } = listener;
  const found = routes.flatMap(({ route: key, hostnames }) => {
    const route = index.routes.get(key);
    return route === undefined ? [] : [{ route, hostnames }];
  });
  return (
    <div class="listener">
      <h4>
        {protocol} listener {name} of {gateway.namespace}/{gateway.name}
        <span class="note"> {hostname ?? "every host"}</span>
      </h4>
      {routes.length === 0 && <p class="note">No route is attached: requests get a 404 response.</p>}
      {found.slice(0, maxRoutes).map(({ route, hostnames }) => (
        <Route
          key={route.key}
          route={route}
          hostnames={hostnames}
          index={index}
          isOpenAtFirst={routes.length <= maxOpenRoutes}
        />
      ))}
      {found.length > maxRoutes && (
        <p class="note">{counted(found.length - maxRoutes, "more route")}: narrow the search to see them.</p>
      )}
    </div>
  );
}

interface RouteProps {
  readonly route: DumpedRoute;
  readonly hostnames: readonly string[];
  readonly index: Index;
  readonly isOpenAtFirst: boolean;
}

function Route({ route, hostnames, index, isOpenAtFirst }: RouteProps) {
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const unmet = route.parents.flatMap(({ conditions }) => conditions.filter((condition) => !isMet(condition)));
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <strong>{route.key}</strong> <span class="note">{hostnames.join(", ") || "every host"}</span>
        {unmet.length > 0 && (
          <span class="bad">
            {" "}
            {[...new Set(unmet.map(({ type, status }) => (status === "True" ? type : `not ${type}`)))].join(", ")}
          </span>
        )}
      </summary>
      {isOpen && (
        <>
          {route.parents.map(({ parent, conditions }) => (
            <div key={parent}>
              <span class="note">at {parent}</span>
              <Conditions conditions={conditions} />
            </div>
          ))}
          {route.rules.map((rule) => (
            <Rule key={rule.key} rule={rule} index={index} />
          ))}
        </>
      )}
    </details>
  );
}

function Rule({ rule, index }: { rule: DumpedRule; index: Index }) {
  const { timeouts, filters, limits, backendRefs } = rule;
  const reply = ruleLocalReply(rule);
  const total = backendRefs.reduce((sum, { weight }) => sum + weight, 0);
  return (
    <div class="rule">
      <ul class="matches">
        {rule.matches.map((match, at) => (
          <li key={at}>
            <code>{describeMatch(match)}</code>
          </li>
        ))}
      </ul>
      {filters.length > 0 && <p class="note">filters: {filters.map(({ kind }) => kind).join(", ")}</p>}
      {timeouts?.requestMs !== undefined && timeouts.requestMs > 0 && (
        <p class="note">timeout {formatMs(timeouts.requestMs)}</p>
      )}
      {limits.length > 0 && (
        <p class="note">
          limited by {[...new Set(limits.map(({ policy, target }) => `${policy} on ${target}`))].join(", ")} (
          <a href="#limits">usage</a>)
        </p>
      )}
      {reply !== undefined && <LocalReplyNotice who="Requests of this rule" reply={reply} />}
      {backendRefs.map((ref, at) => (
        <Backend key={at} reference={ref} total={total} backend={index.backends.get(ref.backend ?? "")} />
      ))}
    </div>
  );
}

/** @param total the sum of the rule's weights. */
function Backend(props: {
  reference: DumpedRule["backendRefs"][number];
  total: number;
  backend: DumpedBackend | undefined;
}) {
  const { reference, total, backend } = props;
  const { backend: key = "a backend that cannot be used", weight } = reference;
  const share = weight === total ? "All requests" : `${weight} of ${counted(total, "request")}`;
  const reply = backendLocalReply(reference, backend);
  if (reply !== undefined) return <LocalReplyNotice who={`${share} to ${key}`} reply={reply} />;
  if (backend === undefined || weight === 0) return <p class="note">No requests to {key}: its weight is 0.</p>;
  return <Endpoints caption={`${share} to ${key}`} endpoints={backend.endpoints} />;
}

function LocalReplyNotice({ who, reply: { status, cause } }: { who: string; reply: LocalReply }) {
  return (
    <p class="notice bad">
      {who} get a {status} response: {cause}.
    </p>
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
