/** The programs and worker threads of each image: the name of the file, and its entry in the sources. */
export const bundledPrograms = {
  proxy: {
    proxy: "proxy/src/main.ts",
    "proxy-worker": "proxy/src/app/worker.ts",
    "proxy-token-counter": "proxy/src/app/token-thread.ts",
    controller: "proxy/src/controller-main.ts",
  },
  "ratelimit-service": {
    "ratelimit-service": "ratelimit-service/src/main.ts",
    "ratelimit-service-worker": "ratelimit-service/src/app/worker.ts",
    ratelimit: "ratelimit-service/src/bin/ratelimit.ts",
    "ratelimit-config-check": "ratelimit-service/src/bin/ratelimit-config-check.ts",
    "ratelimit-client": "ratelimit-service/src/bin/ratelimit-client.ts",
  },
} as const;

export type BundledImage = keyof typeof bundledPrograms;
