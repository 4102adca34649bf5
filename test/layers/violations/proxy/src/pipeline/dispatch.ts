// Breaks the layers on purpose: a package away from its home, test code in code that ships, and an import of nothing.
import { Agent } from "undici";
import { fakeClock } from "../testing/fake-clock.ts";
// @ts-expect-error there is no such file
import { gone } from "./gone.ts";

export const parts: readonly unknown[] = [Agent, fakeClock, gone];
