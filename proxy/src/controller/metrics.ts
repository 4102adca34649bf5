/** The metrics of the controller. */
import { familiesOf, type MetricFamily } from "@gatewayproxy/runtime/metric-families";
import { createFamilies, type MetricTable, takeSnapshot } from "@gatewayproxy/runtime/metrics";

/** The table of the controller's metrics. */
export const controllerMetrics = {
  leader: {
    name: "gateway_proxy_controller_leader",
    type: "gauge",
    help: "1 while this replica leads, else 0.",
    labels: [],
  },
  statusWrites: {
    name: "gateway_proxy_controller_status_writes_total",
    type: "counter",
    help: "Statuses that were written, and attempts that failed, by outcome.",
    labels: ["outcome"],
  },
} as const satisfies MetricTable;

/** Records the controller's metrics. */
export class ControllerMetrics {
  readonly #families = createFamilies(controllerMetrics);

  leading(isLeader: boolean): void {
    this.#families.leader.cell().value = isLeader ? 1 : 0;
  }

  statusWritten(outcome: "written" | "failed"): void {
    this.#families.statusWrites.cell(outcome).value++;
  }

  families(): readonly MetricFamily[] {
    return familiesOf(controllerMetrics, [takeSnapshot(this.#families)]);
  }
}
