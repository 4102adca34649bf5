/** `npm run mock-llm`: the mock as a program. `PORT` (8089) and `HOST` (127.0.0.1) are its settings. */
import { startMockLlm } from "./mock-llm.ts";

if (process.argv.length > 2) {
  console.error("the mock LLM takes no arguments; set HOST and PORT in the environment: PORT=9000 npm run mock-llm");
  process.exit(64);
}

const port = Number(process.env["PORT"] ?? 8_089);
const host = process.env["HOST"] ?? "127.0.0.1";

try {
  const mock = await startMockLlm({ port, host });
  const time = new Date().toISOString();
  console.log(JSON.stringify({ level: "info", time, module: "mock-llm", url: mock.url, msg: "ready" }));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void mock.close());
} catch (error) {
  const reason = error instanceof Error ? error.message : String(error);
  console.error(`the mock LLM cannot listen on ${host} port ${port}: ${reason}; set PORT or HOST to others`);
  process.exitCode = 1;
}
