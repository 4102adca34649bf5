/**
 * Problems of the configuration: of resources, of what is not served, and of rules that others take precedence over.
 */
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import { counted } from "../format.ts";

type Problem = ConfigDump["config"]["problems"][number];
type NotServed = ConfigDump["config"]["notServed"][number];

/** A resource that is not served because of a problem is shown with the problem, once. */
export function Problems({ config: { problems, notServed } }: { config: ConfigDump["config"] }) {
  if (problems.length === 0 && notServed.length === 0) return null;
  const isCauseOf = ({ resource, message }: Problem, other: NotServed): boolean =>
    resource === other.resource && message === other.message;
  const others = notServed.filter((each) => !problems.some((problem) => isCauseOf(problem, each)));
  return (
    <section aria-label="Problems" class="notice bad">
      <h4>Problems</h4>
      <ul>
        {problems.map((problem, index) => {
          const { message, resource, path, location: place } = problem;
          const consequences = notServed.filter((each) => isCauseOf(problem, each));
          return (
            <li key={index}>
              {resource !== undefined && <strong>{resource} </strong>}
              {path !== undefined && <code>{path}</code>} {message}
              {consequences.length > 0 && `; ${describeNotServed(consequences)}`}
              {place !== undefined && <div class="note">{`${place.file}:${place.line}:${place.column}`}</div>}
            </li>
          );
        })}
        {others.map((each, index) => (
          <li key={`not served ${index}`}>
            <strong>{each.resource}</strong> {each.message}; {describeNotServed([each])}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Describes `not served at Gateway default/web (BackendNotFound)`. */
function describeNotServed(all: readonly NotServed[]): string {
  const places = all.map(({ of, reason }) => `${of === undefined ? "" : `at ${of} `}(${reason})`);
  return `not served ${places.join(", ")}`;
}

/** Rules that no request reaches come first. */
export function Conflicts({ conflicts: { rules, leftOut, unexaminedHostnames } }: Pick<ConfigDump, "conflicts">) {
  if (rules.length === 0 && unexaminedHostnames === 0) return null;
  const sorted = rules.toSorted((a, b) => Number(a.isReachable) - Number(b.isReachable));
  return (
    <section aria-label="Conflicts" class="notice warn">
      <h4>Conflicting routes</h4>
      <ul>
        {sorted.map(({ route, rule, message }) => (
          <li key={rule}>
            <strong>{/^[A-Z]/.test(route) ? route.replace("/", " ") : `HTTPRoute ${route}`}</strong>: {message}
          </li>
        ))}
        {leftOut > 0 && <li>and {counted(leftOut, "more rule")}</li>}
        {unexaminedHostnames > 0 && (
          <li>{counted(unexaminedHostnames, "hostname")} with too many matches to compare</li>
        )}
      </ul>
    </section>
  );
}
