/** Expensive expressions, and requests for which they are expensive. */
import type { RequestView } from "../request-view.ts";

const [x, y] = ['request.headers["x"]', 'request.headers["y"]'];

/** Each exceeds the budget of an evaluation for at least one of `largeRequests`. */
export const costlyExpressions: readonly string[] = [
  'request.path.replace("", request.path).replace("", request.path)',
  'request.path.replace("a", request.path).replace("a", request.path)',
  `[request.path]${".map(a, a + a + a + a + a + a + a + a)".repeat(2)}[0] + ${x}.lowerAscii().upperAscii()`,
  `size(${x}.split(",").map(x, size(request.headers["x"].split(","))))`,
  `${x}.split("").map(x, x + "1").join(",")`,
  `size(${x}.split("").map(x, x).filter(x, x != "a"))`,
  `${x}.contains(${y})`,
  `${x}.indexOf(${y})`,
  `${x}.lastIndexOf(${y})`,
  `${x}.split(${y}).size()`,
  `${x}.replace("a", ${y})`,
  `${x}.lowerAscii()`,
  `strings.quote(${x})`,
  `${x}.trim()`,
  `int(${x})`,
  `uint(${x})`,
  `double(${x})`,
  `string(bytes(${x}))`,
  `${y}.format([1.0])`,
  '"%.9f%f%f".format([1.0, 2.0, 3.0])',
  '"%s".format([request.query])',
  "request.query == request.query",
  'request.query.all(x, request.query[x] == "")',
  "request.query.all(x, request.query.exists(y, true))",
  'request.query.exists(k, request.query[1] == "a")',
  `${x}.split("").exists(x, int(x) == 1)`,
  `${x}.split("").exists(x, {}[x] == 1)`,
  "[1].map(a, [request.query, request.query]).map(b, [b, b]).map(c, [c, c]) == [2]",
  'timestamp("2020-01-01T00:00:00Z").getHours("Asia/Tokyo") + timestamp("2020-01-01T00:00:00Z").getHours("Asia/Tokyo")',
  `request.headers.exists(n, ${x}.matches(n))`,
  `${x}.matches(request.path)`,
  `${x}.matches("(.*a){8}b")`,
  "unverifiedJwt.a.map(x, x)[0]",
  "size(request.query) == 0",
  `${x}.split(",") == ${x}.split(",")`,
  `"b" in ${x}.split(",")`,
];

/** Requests of the largest size that the server accepts. */
export const largeRequests: readonly RequestView[] = [
  request(`/${"a".repeat(700)}`, { x: "a,".repeat(350), y: "a" }),
  request(`/${"a".repeat(10_000)}?${"a&b=1&".repeat(2_000)}`, { x: "a".repeat(60_000), y: `${"a".repeat(1_000)}b` }),
  request(`/?${numbered("p", 900, "&")}`, { x: "a,b ".repeat(15_000), y: "b".repeat(30_000) }),
  request(`/${"(a?)".repeat(200)}`, { x: "1".repeat(60_000), y: "%.9f".repeat(100) }),
  request("/", { x: numbered("v", 250, ","), y: "é☃".repeat(4_000), authorization: `Bearer ${token()}` }),
  request(`/?${numbered("p", 300, "&")}`, Object.fromEntries(Array.from({ length: 180 }, (_, at) => [`h${at}`, "v"]))),
];

function request(path: string, headers: Readonly<Record<string, string>>): RequestView {
  const rawHeaders = Object.entries({ x: "a", y: "b", ...headers }).flat();
  const names = { route: "default/r", gateway: "default/g" };
  return {
    method: "GET",
    path,
    authority: "a.example",
    scheme: "http",
    rawHeaders,
    sourceAddress: "192.0.2.1",
    ...names,
  };
}

function numbered(prefix: string, count: number, separator: string): string {
  return Array.from({ length: count }, (_, at) => `${prefix}${at}`).join(separator);
}

function token(): string {
  const claims = JSON.stringify({ sub: "s", a: Array.from({ length: 2_000 }, () => 1) });
  return `e30.${Buffer.from(claims).toString("base64url")}.c`;
}
