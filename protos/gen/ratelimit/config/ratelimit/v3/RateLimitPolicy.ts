// Original file: ratelimit/config/ratelimit/v3/rls_conf.proto

import type { RateLimitUnit as _ratelimit_config_ratelimit_v3_RateLimitUnit, RateLimitUnit__Output as _ratelimit_config_ratelimit_v3_RateLimitUnit__Output } from '../../../../ratelimit/config/ratelimit/v3/RateLimitUnit.ts';
import type { RateLimitReplace as _ratelimit_config_ratelimit_v3_RateLimitReplace, RateLimitReplace__Output as _ratelimit_config_ratelimit_v3_RateLimitReplace__Output } from '../../../../ratelimit/config/ratelimit/v3/RateLimitReplace.ts';

export interface RateLimitPolicy {
  'unit'?: (_ratelimit_config_ratelimit_v3_RateLimitUnit);
  'requestsPerUnit'?: (number);
  'unlimited'?: (boolean);
  'name'?: (string);
  'replaces'?: (_ratelimit_config_ratelimit_v3_RateLimitReplace)[];
}

export interface RateLimitPolicy__Output {
  'unit': (_ratelimit_config_ratelimit_v3_RateLimitUnit__Output);
  'requestsPerUnit': (number);
  'unlimited': (boolean);
  'name': (string);
  'replaces': (_ratelimit_config_ratelimit_v3_RateLimitReplace__Output)[];
}
