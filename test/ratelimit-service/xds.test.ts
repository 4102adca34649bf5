/** Limits by xDS, in a process with several workers, each of which reads them. */
import { tmpdir } from "node:os";
import { expect, onTestFinished, test } from "vitest";
import { response, startXdsServer } from "../../ratelimit-service/src/config/xds/testing/xds-server.ts";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { startRateLimitService } from "../support/ratelimit-process.ts";

test.each(["1", "2"])(
  "with WORKERS=%s they hold from the first call, and follow each response",
  async (workers) => {
    const control = await startXdsServer();
    onTestFinished(() => control.close());
    const config = (requestsPerUnit: number) => ({
      name: "limits",
      domain: "d",
      descriptors: [{ key: "k", rateLimit: { unit: "YEAR", requestsPerUnit } as const }],
    });
    void control.streams.next().then((stream) => {
      stream.write(response("1", config(3)));
      void control.requests.next();
      return control.requests.next().then(() => control.streams.put(stream));
    });
    const service = await startRateLimitService(tmpdir(), {
      WORKERS: workers,
      CONFIG_TYPE: "GRPC_XDS_SOTW",
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${control.port}`,
    });
    onTestFinished(() => service.kill());
    // Connections are spread over the workers.
    const clients = Array.from({ length: 8 }, () => connectRateLimit(service.grpcPort));
    onTestFinished(() => clients.forEach((client) => client.close()));
    const limits = async () => {
      const call = { domain: "d", descriptors: [{ ...descriptor("k=v"), hitsAddend: { value: "0" } }] };
      const answers = await Promise.all(clients.map((client) => client.ask(call)));
      return [...new Set(answers.map(({ statuses }) => statuses[0]?.currentLimit?.requestsPerUnit))];
    };
    expect(await limits()).toEqual([3]);
    (await control.streams.next()).write(response("2", config(5)));
    await expect.poll(limits).toEqual([5]);
  },
  60_000,
);
