import fc from "fast-check";
import { expect, test } from "vitest";
import { allowedConnectProtocol, allowedUpgrade, mayBeAllowed, upgradeProtocols } from "./upgrade-protocol.ts";

const listed = ["websocket", "Tunnel/1"];
const allowed = upgradeProtocols(listed);
const asked = fc.oneof(
  fc.string(),
  fc.constantFrom(...listed, "h2c", "HTTP/2.0", "TLS/1.0").chain((name) => fc.mixedCase(fc.constant(name))),
  fc
    .array(fc.constantFrom("websocket", "h2c", "tunnel/1"), { minLength: 2, maxLength: 3 })
    .map((list) => list.join(", ")),
);

test("for any requested protocol, the backend gets none, or the entry of the list with the same name", () => {
  fc.assert(
    fc.property(asked, (value) => {
      for (const sent of [allowedUpgrade(value, allowed), allowedConnectProtocol(value, allowed)]) {
        if (sent === undefined) continue;
        expect(listed).toContain(sent);
        expect(sent.toLowerCase()).toBe(value.toLowerCase());
      }
    }),
  );
});

test.each(["h2", "h2c", "H2C", "h3", "http", "HTTP/1.1", "https", "TLS/1.0", "tls", "", "a b", "a,b", "a/b/c", "a/"])(
  "the setting does not accept %j",
  (protocol) => {
    expect(mayBeAllowed(protocol)).toBe(false);
  },
);

test.each(["websocket", "WebSocket", "tunnel/1", "SPDY/3.1", "connect-udp", "tlsish", "http-ish"])(
  "the setting accepts %j",
  (protocol) => {
    expect(mayBeAllowed(protocol)).toBe(true);
  },
);
