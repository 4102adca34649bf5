// Breaks the layers on purpose: a pure layer with a package.
import { parse } from "yaml";

export const parts: readonly unknown[] = [parse];
