/** Requests a second; FAULTS_RATE changes it for a busy or small machine. */
export const rate = Number(process.env["FAULTS_RATE"] ?? 300);
