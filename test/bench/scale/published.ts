/**
 * Figures that gateway-api-bench (github.com/howardjohn/gateway-api-bench, commit 141add6) has published, of a kind
 * cluster on a machine with 16 cores: README.md (June 2025) for the attached routes, README-v2.md (autumn 2025) for the
 * others. Figures that it shows in graphs alone are those that its text names.
 */

/** A line of prose or of a table, in Markdown. */
type Published = string;

export const published: Readonly<Record<CaseName, Published>> = {
  attached: `Published for 1,000 routes:

|               | Cilium | Envoy Gateway | Istio | Kgateway | Kong | Traefik | Nginx |
| ------------- | -----: | ------------: | ----: | -------: | ---: | ------: | ----: |
| setup time    |    1 s |          23 s |   2 s |     12 s |  1 s |   180 s |  29 s |
| teardown time |   18 s |          45 s |  20 s |     16 s | 22 s |    16 s |  15 s |
| writes        |    193 |         1,383 |   311 |      323 | 1,403 |      73 |    82 |`,
  probe: `Published for 3,000 routes: Agentgateway 10 to 30 ms, Istio 120 to 300 ms, Envoy Gateway up to 600 ms with 14,808 errors, Nginx
up to 800 ms.`,
  changes: `Published: Agentgateway and Istio fail no request, Envoy Gateway and Nginx do.`,
  scale: `Published for 5,000 routes: the data planes take 1 to 2 GB, that of Agentgateway 40 MB. A new route among them is served after 30 ms by
Agentgateway, 375 ms by Istio and 2,000 ms by Envoy Gateway. Nginx needs more than 5 minutes.`,
  "listener-sets": `Published for 2,500 ListenerSets with 40,000 routes, in relation to each other alone: Istio takes 15 times the memory of Agentgateway in
the data plane, and 1.3 times in the control plane. Envoy Gateway and Nginx did not serve ListenerSets.`,
};

/** The names of the cases on the command line. */
export const caseNames = ["attached", "probe", "changes", "scale", "listener-sets"] as const;
export type CaseName = (typeof caseNames)[number];
