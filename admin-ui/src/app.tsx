/** The frame of the page: where one is, where one can go, and whether the proxy answers. */
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { BackendsPage } from "./pages/backends.tsx";
import { LimitsPage } from "./pages/limits.tsx";
import { LoggingPage } from "./pages/logging.tsx";
import { PoliciesPage } from "./pages/policies.tsx";
import { TracePage } from "./pages/trace.tsx";
import { TrafficPage } from "./pages/traffic.tsx";
import { Failure } from "./parts/failure.tsx";
import { type Polled, usePolled } from "./polled.ts";

/** How often the configuration is asked for; endpoints' figures are part of it. */
const configMs = 2000;

const pages = {
  traffic: { title: "Traffic", render: (dump: ConfigDump) => <TrafficPage dump={dump} /> },
  backends: { title: "Backends", render: (dump: ConfigDump) => <BackendsPage backends={dump.backends} /> },
  policies: { title: "Policies", render: (dump: ConfigDump) => <PoliciesPage policies={dump.policies} /> },
  limits: { title: "Limits", render: () => <LimitsPage /> },
  trace: { title: "Trace", render: () => <TracePage /> },
  logging: { title: "Logging", render: () => <LoggingPage /> },
} as const;
type PageName = keyof typeof pages;

export function App() {
  const page = usePage();
  const { answer, failure } = usePolled<ConfigDump>("/config_dump", configMs);
  return (
    <>
      <header>
        <a class="skip" href={`#${page}`} onClick={focusMain}>
          Skip to the content
        </a>
        <h1>Gateway proxy</h1>
        <nav aria-label="Pages">
          {pageNames.map((name) => (
            <a key={name} href={`#${name}`} aria-current={name === page ? "page" : undefined}>
              {pages[name].title}
            </a>
          ))}
        </nav>
        <Serving dump={answer} failure={failure} />
      </header>
      <main id="main" tabIndex={-1}>
        <h2>{pages[page].title}</h2>
        <Loaded config={{ answer, failure }}>{(dump) => pages[page].render(dump)}</Loaded>
      </main>
    </>
  );
}

/** Object.keys gives the names of a constant object and no others. */
const pageNames = Object.keys(pages) as PageName[];

function Serving({ dump, failure }: { dump: ConfigDump | undefined; failure: string | undefined }) {
  if (failure !== undefined) return <p class="serving bad">Not answering</p>;
  if (dump === undefined) return <p class="serving">…</p>;
  const { generation, problems, mode } = dump.config;
  return (
    <p class={problems.length > 0 ? "serving warn" : "serving good"}>
      Generation {generation}, {mode} mode
      {problems.length > 0 && `, ${problems.length} ${problems.length === 1 ? "problem" : "problems"}`}
    </p>
  );
}

function Loaded({
  config: { answer, failure },
  children,
}: {
  config: Polled<ConfigDump>;
  children: (dump: ConfigDump) => ComponentChildren;
}) {
  return (
    <>
      {failure !== undefined && <Failure message={failure} />}
      {answer === undefined ? failure === undefined && <p>Asking the proxy…</p> : children(answer)}
    </>
  );
}

/** The page that the address names after `#`; kept there, so that Back works and a page can be linked to. */
function usePage(): PageName {
  const [page, setPage] = useState(readPage);
  useEffect(() => {
    const read = (): void => setPage(readPage());
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  return page;
}

function readPage(): PageName {
  const named = location.hash.slice(1);
  return pageNames.find((name) => name === named) ?? "traffic";
}

function focusMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}
