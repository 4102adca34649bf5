/**
 * Reads the model and the stream option of the request, for limits and backends that depend on them. The body is
 * buffered for that. A body that cannot be read must not get past such a limit, so its request is rejected.
 */
import { type ModelReading, readModel } from "../requested-model.ts";
import type { Stage } from "../stage.ts";

export const requestModel: Stage = {
  name: "request model",
  run(request) {
    // It has been read for the choice of the rule.
    if (request.llm !== undefined) return "continue";
    return request.wait<ModelReading>({
      start: (done) => readModel(request.downstream.head, request.takeBody(), done),
      proceed(reading) {
        if (reading.kind === "rejected") return request.reply(reading.reply);
        request.llm = reading.llm;
        return "continue";
      },
      onAbandoned: () => request.reservation?.refund(),
    });
  },
};
