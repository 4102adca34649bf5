import { expect, test } from "vitest";
import { startMute } from "../testing/admin.ts";
import { AdminClient } from "./admin-client.ts";
import { directReach } from "./reach.ts";

test("an admin server that does not answer is given up, and told", async () => {
  const address = await startMute();
  const admin = new AdminClient(directReach("127.0.0.1", Number(address.split(":")[1])), 50);
  await expect(admin.limits()).rejects.toMatchObject({
    message: `ask ${address} for /limits: no answer within 0.05 s`,
    exitCode: 2,
  });
});
