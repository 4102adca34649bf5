/** Divides the routes of a listener into pages: what is computed of thousands of them then costs what has changed. */
import { pagesBy } from "@gatewayproxy/runtime/lists";
import type { Route } from "./snapshot.ts";

/** Returns the pages of a list, by the keys of its routes. An unchanged page is the same list. */
export const pagesOfRoutes = pagesBy<Route>(({ key }) => key);
