// Original file: ratelimit/config/ratelimit/v3/rls_conf.proto

import type { RateLimitDescriptor as _ratelimit_config_ratelimit_v3_RateLimitDescriptor, RateLimitDescriptor__Output as _ratelimit_config_ratelimit_v3_RateLimitDescriptor__Output } from '../../../../ratelimit/config/ratelimit/v3/RateLimitDescriptor.ts';

export interface RateLimitConfig {
  'name'?: (string);
  'domain'?: (string);
  'descriptors'?: (_ratelimit_config_ratelimit_v3_RateLimitDescriptor)[];
}

export interface RateLimitConfig__Output {
  'name': (string);
  'domain': (string);
  'descriptors': (_ratelimit_config_ratelimit_v3_RateLimitDescriptor__Output)[];
}
