// Legal: undici at home, and any module of Node.
import { connect } from "node:net";
import { Agent } from "undici";

export const parts: readonly unknown[] = [connect, Agent];
