import { expect, test } from "vitest";
import { socketPlan } from "./socket-plan.ts";

test.each([
  [1_024, 1, 512, 224, 128],
  [20_000, 4, 2_500, 1_093, 625],
  [1_048_576, 16, 32_768, 14_336, 8_192],
  [16, 64, 1, 1, 1],
  [undefined, 4, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
])(
  "of %s open files, each of %i workers has %i connections, %i to endpoints, and %i of each other kind",
  (openFiles, workers, connections, toEndpoints, other) => {
    const plan = { connections, toEndpoints, sessions: other, toEndpoint: other, tunnelsToEndpoint: other };
    expect(socketPlan({ openFiles, localPorts: 28_232 }, workers)).toMatchObject(plan);
  },
);

test.each([
  [28_232, 1, 21_174],
  [28_232, 4, 5_293],
  [1, 4, 1],
])(
  "of %i local ports, closed connections of each of %i workers may keep %i towards an endpoint",
  (localPorts, workers, keptPorts) => {
    expect(socketPlan({ openFiles: undefined, localPorts }, workers)).toMatchObject({ keptPorts });
  },
);

test.each([
  [1_024, 1, 1],
  [20_000, 1, 8],
  [20_000, 4, 2],
  [1_048_576, 16, 8],
  [undefined, 4, 8],
])("of %s open files, each of %i workers listens with %i sockets on a port", (openFiles, workers, listening) => {
  expect(socketPlan({ openFiles, localPorts: 28_232 }, workers)).toMatchObject({ listening });
});
