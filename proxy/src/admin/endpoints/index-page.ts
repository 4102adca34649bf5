/** `/`: the list of endpoints, as an HTML page or as JSON. */
import type { EndpointIndex } from "@gatewayproxy/admin-api/endpoint-index";
import { type AdminEndpoint, type AdminMethod, adminMethods } from "../endpoint.ts";

/** @param endpoints All other endpoints. */
export function indexEndpoint(endpoints: readonly AdminEndpoint[]): AdminEndpoint {
  const index: AdminEndpoint = {
    path: "/",
    query: [],
    summary: "This index.",
    methods: {
      GET({ headers }) {
        const value = renderIndex([index, ...endpoints]);
        const acceptsHtml = headers.accept?.includes("text/html") === true;
        return acceptsHtml
          ? { kind: "text", text: renderPage(value), contentType: "text/html; charset=utf-8" }
          : { kind: "json", value };
      },
    },
  };
  return index;
}

/** Returns the endpoints as data. */
export function renderIndex(endpoints: readonly AdminEndpoint[]): EndpointIndex {
  return {
    endpoints: endpoints.map(({ path, query, summary, methods }) => ({
      methods: adminMethods.filter((method: AdminMethod) => methods[method] !== undefined),
      path,
      query: query.join("&"),
      summary,
    })),
  };
}

function renderPage({ endpoints }: EndpointIndex): string {
  const rows = endpoints.map(({ methods, path, query, summary }) => {
    const shown = escape(query === "" ? path : `${path}?${query}`);
    const name = methods.includes("GET") ? `<a href="${escape(path)}">${shown}</a>` : shown;
    return `<tr><td>${methods.join(", ")}</td><td><code>${name}</code></td><td>${escape(summary)}</td></tr>`;
  });
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>gateway-proxy admin</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
td { padding: .25rem 1rem .25rem 0; vertical-align: top; }
</style>
</head>
<body>
<h1>gateway-proxy admin</h1>
<table>
${rows.join("\n")}
</table>
</body>
</html>
`;
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
