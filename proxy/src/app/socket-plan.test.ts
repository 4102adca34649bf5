import { expect, test } from "vitest";
import { socketPlan } from "./socket-plan.ts";

test.each([
  [1_024, 1, 512, 128],
  [20_000, 4, 2_500, 625],
  [1_048_576, 16, 32_768, 8_192],
  [16, 64, 1, 1],
  [undefined, 4, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
])(
  "of %s open files, each of %i workers has %i connections, and %i of each other kind",
  (files, workers, connections, other) => {
    const plan = { connections, sessions: other, toEndpoint: other, tunnelsToEndpoint: other };
    expect(socketPlan(files, workers)).toEqual(plan);
  },
);
