// Original file: ratelimit/config/ratelimit/v3/rls_conf.proto


export interface RateLimitReplace {
  'name'?: (string);
}

export interface RateLimitReplace__Output {
  'name': (string);
}
