/** Requests a second; FAULTS_RATE changes it for a machine that is busy or small. */
export const rate = Number(process.env["FAULTS_RATE"] ?? 300);
