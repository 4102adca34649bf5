import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import { describe, expect, onTestFinished, test } from "vitest";
import { startKubeApi } from "../kube/testing/kube-api.ts";
import { startAdmin } from "../testing/admin.ts";
import { sampleDump } from "../testing/dump.ts";
import { proxyctl } from "../testing/run.ts";
import { chatTrace, streamOf, unmatchedTrace } from "../testing/trace-events.ts";

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A listener with 200 responses, and an admin server that sends `events` once the listener gets a request. */
async function startTraced(events: readonly TraceEvent[], ending = "") {
  const seen: Seen[] = [];
  const asked = Promise.withResolvers<undefined>();
  const listener = createServer((request, response) => {
    void buffer(request).then((body) => {
      const { method = "", url = "", headers } = request;
      seen.push({ method, url, headers, body: body.toString() });
      response.end("hello");
      asked.resolve(undefined);
    });
  }).listen(0, "127.0.0.1");
  await once(listener, "listening");
  onTestFinished(() => void listener.close());
  const admin = await startAdmin({
    "GET /debug/trace": (_, response) => {
      response.write(": ready\n\n");
      void asked.promise.then(() => response.end(streamOf(events) + ending));
    },
  });
  // A TCP server that listens has such an address.
  const { port } = listener.address() as AddressInfo;
  return { seen, admin, port };
}

async function trace(events: readonly TraceEvent[], flags: readonly string[], request: readonly string[]) {
  const traced = await startTraced(events);
  const args = ["trace", "--address", traced.admin.address, "--port", String(traced.port), ...flags];
  return { ...traced, run: await proxyctl([...args, "--", ...request]) };
}

describe("trace sends the request itself, and", () => {
  test("prints a line per event and one for the response", async () => {
    const { run } = await trace(chatTrace, [], ["http://chat.example.com/v1/chat/completions"]);
    expect(run).toMatchObject({ exitCode: 0, stderr: "" });
    await expect(run.stdout).toMatchFileSnapshot("testdata/trace-plain.txt");
  });

  test("prints the same for a request that no route matched", async () => {
    const { run } = await trace(unmatchedTrace, [], ["http://chat.example.com/nowhere"]);
    expect(run.exitCode).toBe(0);
    await expect(run.stdout).toMatchFileSnapshot("testdata/trace-unmatched.txt");
  });

  test("names a few of many routes that do not match", async () => {
    const evaluatedRoutes = Array.from({ length: 1_000 }, (_, at) => `default/r${at}`);
    const many = unmatchedTrace.map((event) => {
      return event.message.type === "routeSelection"
        ? { ...event, message: { ...event.message, evaluatedRoutes } }
        : event;
    });
    const { run } = await trace(many, [], ["http://chat.example.com/"]);
    expect(run.stdout).toMatch(
      /no route of \S+ matches; evaluated default\/r0, default\/r1, default\/r2 and 997 more; the nearest is /,
    );
  });

  test("prints with --raw each event as it came, and nothing else", async () => {
    const { run } = await trace(chatTrace, ["--raw"], ["http://chat.example.com/"]);
    expect(
      run.stdout
        .trimEnd()
        .split("\n")
        .map((line): unknown => JSON.parse(line)),
    ).toEqual(chatTrace);
  });

  test("watches for this request alone, by an id of its own", async () => {
    const { admin, seen } = await trace(chatTrace, [], ["http://chat.example.com/"]);
    const id = seen[0]?.headers["x-request-id"];
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    const { searchParams } = new URL(admin.requests[0]?.split(" ")[1] ?? "", "http://admin");
    expect(searchParams.get("expression")).toBe(`request.headers["x-request-id"] == "${String(id)}"`);
  });

  test("asks for the URL's path and query at the URL's host, whatever it connects to", async () => {
    const { seen } = await trace(chatTrace, [], ["http://chat.example.com:8080/v1/models?limit=2"]);
    expect(seen).toMatchObject([
      { method: "GET", url: "/v1/models?limit=2", headers: { host: "chat.example.com:8080", accept: "*/*" }, body: "" },
    ]);
  });

  test("takes the flags that curl takes", async () => {
    const { seen } = await trace(
      chatTrace,
      [],
      [
        "-s",
        "-X",
        "PUT",
        "-H",
        "X-User: ada",
        "-H",
        "Host: other.example.com",
        "-d",
        "a=1",
        "--data",
        "b=2",
        "http://h/p",
      ],
    );
    expect(seen).toMatchObject([
      {
        method: "PUT",
        headers: {
          host: "other.example.com",
          "x-user": "ada",
          "content-type": "application/x-www-form-urlencoded",
          "content-length": "7",
        },
        body: "a=1&b=2",
      },
    ]);
  });

  test("posts JSON with --json", async () => {
    const { seen } = await trace(chatTrace, [], ["--json", '{"model":"mock"}', "http://h/v1/chat/completions"]);
    expect(seen).toMatchObject([
      {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/json" },
        body: '{"model":"mock"}',
      },
    ]);
  });
});

describe("a request that is a path", () => {
  /** Asks for /v1/models through a proxy that has these listeners open, next to one that is closed. */
  async function ask(...ports: readonly number[]) {
    const traced = await startTraced(chatTrace);
    const [bind] = sampleDump.binds;
    const open = [...ports, traced.port].map((port) => ({ ...bind, port, isOpen: true }));
    const admin = await startAdmin({
      "GET /config_dump": { ...sampleDump, binds: [...open, { ...bind, port: 1, isOpen: false }] },
      "GET /debug/trace": (_, response) => void response.end(`: ready\n\n${streamOf(chatTrace)}`),
    });
    const run = await proxyctl(["trace", "--address", admin.address, "--", "-H", "x-user: ada", "/v1/models?a=1"]);
    return { run, ...traced };
  }

  test("goes to the only listener for plain HTTP", async () => {
    const { run, seen } = await ask();
    expect(run).toMatchObject({ exitCode: 0, stderr: "" });
    expect(seen).toMatchObject([{ url: "/v1/models?a=1", headers: { host: "localhost", "x-user": "ada" } }]);
  });

  test("needs a port where there are several", async () => {
    const { run, port, seen } = await ask(9090);
    expect(run).toMatchObject({ exitCode: 64, stdout: "" });
    expect(run.stderr).toContain(`open listeners for plain HTTP have 9090, ${port}\n  name one: --port PORT\n`);
    expect(seen).toEqual([]);
  });
});

test("TLS to a listener for plain HTTP is explained", async () => {
  const { run } = await trace(chatTrace, [], ["https://chat.example.com/"]);
  expect(run).toMatchObject({ exitCode: 2, stdout: "" });
  expect(run.stderr).toContain(": the listener does not use TLS\n  use an http:// URL for a plain HTTP listener\n");
});

test("trace goes through port-forwards of one pod, to the admin server and to the listener", async () => {
  const { admin, port } = await startTraced(chatTrace);
  const pod = { name: "web-a", gateway: "web", ports: { 15_000: admin.port, 8080: port } };
  const api = await startKubeApi({ gateways: [{ name: "web" }], pods: [pod] });
  const run = await proxyctl([
    ...["trace", "gateway/web", "-n", "default", "--kubeconfig", api.kubeconfig, "--port", "8080"],
    ...["--", "http://chat.example.com/v1/chat/completions"],
  ]);
  expect(run).toMatchObject({ exitCode: 0, stderr: "" });
  expect(run.stdout).toContain("response: 200 OK, 5 bytes\n");
  expect(api.requests.filter((request) => request.startsWith("UPGRADE"))).toEqual([
    "UPGRADE /api/v1/namespaces/default/pods/web-a/portforward?ports=15000",
    "UPGRADE /api/v1/namespaces/default/pods/web-a/portforward?ports=8080",
  ]);
});

describe("without a request trace", () => {
  test("follows the next one of any client", async () => {
    const admin = await startAdmin({ "GET /debug/trace": `: ready\n\n${streamOf(unmatchedTrace)}` });
    const run = await proxyctl(["trace", "--address", admin.address, "--expression", 'request.method == "POST"']);
    expect(run).toMatchObject({ exitCode: 0, stderr: `watching ${admin.address} for the next request\n` });
    expect(run.stdout).toContain("404 RouteNotFound");
    expect(run.stdout).not.toContain("response:");
    expect(admin.requests).toEqual(["GET /debug/trace?expression=request.method+%3D%3D+%22POST%22"]);
  });

  test("shows what --raw has saved", async () => {
    const saved = chatTrace.map((event) => `${JSON.stringify(event)}\n`).join("");
    const run = await proxyctl(["trace", "--file", "-"], { input: saved });
    expect(run.stdout.split("\n")).toHaveLength(chatTrace.length + 1);
    expect((await proxyctl(["trace", "--file", "-", "--raw"], { input: saved })).stdout).toBe(saved);
  });
});

describe("trace --trace-id", () => {
  const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
  const none = { decisions: [], remembered: 3, capacity: 1024 };
  const denial = {
    ...{ kind: "local", requestId: "r-1", traceId, at: "2026-11-21T10:00:05.000Z", worker: 1, method: "POST" },
    ...{ authority: "chat.example.com", path: "/v1", policy: "default/chat-limits", target: "HTTPRoute/default/chat" },
    counter: {
      ...{ entry: 0, counts: "requests", unit: "Minutes", used: 15, limit: 15 },
      ...{ windowStart: "2026-11-21T10:00:00.000Z", windowEnd: "2026-11-21T10:01:00.000Z" },
    },
    remedies: ["the window ends at 10:01:00"],
  };

  test("explains the kept denials of the trace, oldest first, and follows nothing", async () => {
    const second = { ...denial, requestId: "r-2", at: "2026-11-21T10:00:06.000Z" };
    const admin = await startAdmin({ "GET /limits/decisions": { ...none, decisions: [second, denial] } });
    const run = await proxyctl(["trace", "--address", admin.address, "--trace-id", traceId.toUpperCase()]);
    expect(run).toMatchObject({ exitCode: 1, stderr: "" });
    expect(run.stdout.match(/request id +(\S+)/g)?.map((line) => line.split(/ +/).at(-1))).toEqual(["r-1", "r-2"]);
    expect(run.stdout).toContain("15 of 15 requests used, before this request");
    expect(admin.requests).toEqual([`GET /limits/decisions?trace_id=${traceId}`]);
  });

  test("follows the next request of the trace, at whichever pod it arrives", async () => {
    const isWatching = Promise.withResolvers<undefined>();
    const admins = await Promise.all([
      startAdmin({
        "GET /limits/decisions": none,
        "GET /debug/trace": (_, response) => {
          response.write(": ready\n\n");
          isWatching.resolve(undefined);
        },
      }),
      startAdmin({
        "GET /limits/decisions": none,
        "GET /debug/trace": (_, response) => {
          void isWatching.promise.then(() => response.end(`: ready\n\n${streamOf(unmatchedTrace)}`));
        },
      }),
    ]);
    const pods = admins.map((admin, at) => ({ name: `web-${at}`, gateway: "web", ports: { 15_000: admin.port } }));
    const api = await startKubeApi({ gateways: [{ name: "web" }], pods });
    const run = await proxyctl([
      ...["trace", "gateway/web", "-n", "default", "--kubeconfig", api.kubeconfig],
      ...["--trace-id", `00-${traceId}-00f067aa0ba902b7-01`, "--expression", "true"],
    ]);
    expect(run.exitCode).toBe(0);
    expect(run.stderr).toMatch(
      new RegExp(`^no denial of trace ${traceId} is kept; watching .*web-0.*, .*web-1.* for its next request\n$`),
    );
    expect(run.stdout).toContain("404 RouteNotFound");
    for (const { requests } of admins) {
      expect(requests.at(-1)).toBe(`GET /debug/trace?expression=true&trace_id=${traceId}`);
    }
  });

  test("sends the request of the command as part of the trace", async () => {
    const own = await trace(chatTrace, ["--trace-id", traceId], ["http://h/"]);
    expect(own.seen[0]?.headers["traceparent"]).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
    const traceparent = `00-${traceId}-00f067aa0ba902b7-00`;
    const child = await trace(chatTrace, ["--trace-id", traceparent], ["http://h/"]);
    expect(child.seen[0]?.headers["traceparent"]).toBe(traceparent);
  });

  test.each([
    ["--trace-id", "4bf9", "accepted is a trace id of 32 hexadecimal digits that are not all zeros, or a traceparent"],
    ["--trace-id", "0".repeat(32), "accepted is a trace id of 32 hexadecimal digits that are not all zeros"],
  ])("%s %s is rejected", async (flag, id, message) => {
    const run = await proxyctl(["trace", "--address", ":15000", flag, id]);
    expect(run).toMatchObject({ exitCode: 64, stdout: "" });
    expect(run.stderr).toContain(message);
  });

  test("and a traceparent of the request are rejected together", async () => {
    const { run, seen } = await trace(chatTrace, ["--trace-id", traceId], ["-H", "Traceparent: x", "http://h/"]);
    expect(run).toMatchObject({ exitCode: 64, stdout: "" });
    expect(run.stderr).toContain("--trace-id and the header traceparent both name the trace of the request");
    expect(seen).toEqual([]);
  });
});

describe("what goes wrong with a trace", () => {
  test("a closed listener is reported, and the trace ends", async () => {
    const admin = await startAdmin({ "GET /debug/trace": (_, response) => void response.write(": ready\n\n") });
    const run = await proxyctl(["trace", "--address", admin.address, "--port", "1", "--", "http://h/"]);
    expect(run).toMatchObject({ exitCode: 2, stdout: "" });
    expect(run.stderr).toContain(
      "error: connect to 127.0.0.1:1: nothing listens there\n  see where the proxy's listeners are: proxyctl config all\n",
    );
  });

  test("a stream that ends before the request is reported", async () => {
    const { run } = await trace(chatTrace.slice(0, 3), [], ["http://h/"]);
    expect(run.exitCode).toBe(2);
    expect(run.stderr).toContain("it got a 200 response, but the proxy did not see it");
  });

  test("an invalid expression is reported with the proxy's message", async () => {
    const admin = await startAdmin({
      "GET /debug/trace": (_, response) =>
        response.writeHead(400).end(JSON.stringify({ error: "expression: unknown name reqest", hint: "see docs" })),
    });
    const run = await proxyctl(["trace", "--address", admin.address, "--expression", "reqest"]);
    expect(run.stderr).toContain("expression: unknown name reqest\n  see docs\n");
    expect(run.exitCode).toBe(64);
  });

  test.each([
    ["no URL", ["-X", "POST"]],
    ["another scheme", ["ftp://h/"]],
    ["a header that would smuggle another", ["-H", "a: b\r\nc: d", "http://h/"]],
    ["a flag that curl has and this has not", ["--proxy", "x", "http://h/"]],
    ["a body file that is not there", ["-d", "@/nowhere", "http://h/"]],
  ])("%s ends with 64 and words", async (name, request) => {
    const { exitCode, stdout, stderr } = await proxyctl(["trace", "--address", ":15000", "--", ...request]);
    expect({ exitCode, stdout }).toEqual({ exitCode: 64, stdout: "" });
    await expect(stderr).toMatchFileSnapshot(`testdata/trace-usage-${name.replaceAll(" ", "-")}.txt`);
  });

  test("a port without a request ends with 64 and words", async () => {
    const { exitCode, stderr } = await proxyctl(["trace", "--address", ":15000", "--port", "80"]);
    expect(exitCode).toBe(64);
    expect(stderr).toContain("write the request after --");
  });
});
