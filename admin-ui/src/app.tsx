/** The frame of the page: navigation, the state of the configuration, and whether the proxy responds. */
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import type { Traffic } from "@gatewayproxy/admin-api/traffic";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { AdminFailure } from "./admin.ts";
import { counted } from "./format.ts";
import { BackendsPage } from "./pages/backends.tsx";
import { LimitsPage } from "./pages/limits.tsx";
import { LoggingPage } from "./pages/logging.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { PoliciesPage } from "./pages/policies.tsx";
import { RoutesPage } from "./pages/routes.tsx";
import { TracePage } from "./pages/trace.tsx";
import { Alert } from "./parts/failure.tsx";
import { Paused, usePolled } from "./polled.ts";
import { remember, type TrafficHistory } from "./traffic-history.ts";

/** The period of requests for the configuration dump, which contains figures of endpoints. */
const configMs = 2000;
const trafficMs = 2000;

/** The data of every page. */
interface PageProps {
  readonly dump: ConfigDump;
  readonly history: TrafficHistory;
}

interface PageDescription {
  readonly title: string;
  /** Describes the page in one sentence. */
  readonly about: string;
  readonly render: (props: PageProps) => ComponentChildren;
}

const pages = {
  overview: {
    title: "Overview",
    about: "Current traffic, limits that are nearly used up, and problems.",
    render: ({ dump, history }) => <OverviewPage dump={dump} history={history} />,
  },
  routes: {
    title: "Routes",
    about: "Which rule a request matches, by address, listener and route, and its backends.",
    render: ({ dump }) => <RoutesPage dump={dump} />,
  },
  backends: {
    title: "Backends",
    about: "The backends of rules, and the state of each endpoint.",
    render: ({ dump }) => <BackendsPage dump={dump} />,
  },
  policies: {
    title: "Policies",
    about: "What each ProxyPolicy limits, and whether it is in effect.",
    render: ({ dump }) => <PoliciesPage policies={dump.policies} />,
  },
  limits: {
    title: "Limits",
    about: "How much of each limit is used, in requests or in tokens.",
    render: ({ dump, history }) => <LimitsPage dump={dump} traffic={history.at(-1)} />,
  },
  trace: {
    title: "Trace",
    about: "The trace of one request, step by step.",
    render: ({ dump }) => <TracePage dump={dump} />,
  },
  logging: {
    title: "Logging",
    about: "The log level of each module.",
    render: () => <LoggingPage />,
  },
} as const satisfies Record<string, PageDescription>;
type PageName = keyof typeof pages;

/** Object.keys returns the names of a constant object and no others. */
const pageNames = Object.keys(pages) as PageName[];

/** The whole page. */
export function App() {
  const [isPaused, setPaused] = useState(false);
  return (
    <Paused.Provider value={isPaused}>
      <Frame isPaused={isPaused} onPause={setPaused} />
    </Paused.Provider>
  );
}

function Frame({ isPaused, onPause }: { isPaused: boolean; onPause: (isPaused: boolean) => void }) {
  const page = usePage();
  const { data: dump, failure } = usePolled<ConfigDump>("/config_dump", configMs);
  const history = useTrafficHistory();
  const { title, about, render } = pages[page];
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
        <Serving dump={dump} failure={failure} />
        <button type="button" aria-pressed={isPaused} onClick={() => onPause(!isPaused)}>
          Pause
        </button>
      </header>
      <main id="main" tabIndex={-1}>
        <h2>{title}</h2>
        <p class="note">{about}</p>
        {failure !== undefined && (
          <Alert message={dump === undefined ? failure.message : `${failure.message} The page shows earlier data.`} />
        )}
        {isPaused && <p class="notice warn">Updates are paused.</p>}
        {dump === undefined ? failure === undefined && <p>Loading…</p> : render({ dump, history })}
      </main>
    </>
  );
}

function Serving({ dump, failure }: { dump: ConfigDump | undefined; failure: AdminFailure | undefined }) {
  if (failure !== undefined) return <p class="serving bad">Not responding</p>;
  if (dump === undefined) return <p class="serving">…</p>;
  const { generation, problems, mode } = dump.config;
  return (
    <p class={problems.length > 0 ? "serving warn" : "serving good"}>
      Generation {generation}, {mode} mode
      {problems.length > 0 && (
        <>
          , <a href="#overview">{counted(problems.length, "problem")}</a>
        </>
      )}
    </p>
  );
}

/** Shared by all pages, so that the plots continue while another page is shown. */
function useTrafficHistory(): TrafficHistory {
  const { data } = usePolled<Traffic>("/traffic", trafficMs);
  const [history, setHistory] = useState<TrafficHistory>([]);
  useEffect(() => {
    if (data !== undefined) setHistory((before) => remember(before, data));
  }, [data]);
  return history;
}

/** The page that the URL names after `#`, so that Back works and pages can be linked to. */
function usePage(): PageName {
  const [page, setPage] = useState(readPage);
  useLayoutEffect(() => {
    const read = (): void => setPage(readPage());
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  useLayoutEffect(() => {
    // Several proxies may be open in several tabs.
    document.title = `${pages[page].title} – gateway proxy at ${location.host}`;
  }, [page]);
  return page;
}

function readPage(): PageName {
  const named = location.hash.slice(1);
  return pageNames.find((name) => name === named) ?? "overview";
}

function focusMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}
