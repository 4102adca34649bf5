/** Writes the public key of a new login service beside the manifests, and prints a token: see the README. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createLogin } from "./login.ts";

const [subject = "ada", monthlyTokens = "2000"] = process.argv.slice(2);
const login = createLogin();
writeFileSync(join(import.meta.dirname, "../login-keys.yaml"), login.manifest);
const token = login.token({ sub: subject, monthly_tokens: Number(monthlyTokens) }, Math.floor(Date.now() / 1_000));
process.stdout.write(`${token}\n`);
