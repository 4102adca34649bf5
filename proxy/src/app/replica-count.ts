/** The number of replicas by which a proxy divides limits, also while it does not know its own endpoints. */

/**
 * The number before the endpoints are known. Each replica then permits little of a limit: a tenant who fills the memory
 * for Services or EndpointSlices must not multiply the limits of others.
 */
const unknownReplicas = 1_000;

/** Counts the replicas of a proxy. */
export class ReplicaCount {
  #last: number | undefined;

  /**
   * Returns the number of replicas.
   *
   * @param counted the ready endpoints that this process has read.
   * @param isComplete whether it has read all Services and EndpointSlices of the namespace.
   */
  of(counted: number, isComplete: boolean): number {
    if (isComplete) this.#last = counted;
    return isComplete ? counted : Math.max(counted, this.#last ?? unknownReplicas);
  }
}
