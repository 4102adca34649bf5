/** The view that expressions have of a relayed connection or session. */
import type { RequestView } from "../cel/request-view.ts";
import type { StreamRecord } from "./stream-record.ts";

/** All that reads a request has no value, so that it neither names a counter nor exempts from it. */
export function streamView({ sourceAddress, serverName, route = "", gateway = "" }: StreamRecord): RequestView {
  return {
    isConnection: true,
    method: "",
    path: "",
    authority: "",
    scheme: "",
    rawHeaders: [],
    sourceAddress,
    serverName,
    route,
    gateway,
  };
}
