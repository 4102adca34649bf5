/** The method by which the rate limit service of this project identifies itself. */

/** Takes an empty message; the response has a name in field 1 and a version in field 2. */
export const serviceInfoMethod = "/gatewayproxy.ratelimit.v1.ServiceInfo/Get";

/** The name of this project's rate limit service. */
export const serviceInfoName = "gateway-proxy";
