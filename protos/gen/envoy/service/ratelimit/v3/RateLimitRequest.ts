// Original file: envoy/service/ratelimit/v3/rls.proto

import type { RateLimitDescriptor as _envoy_extensions_common_ratelimit_v3_RateLimitDescriptor, RateLimitDescriptor__Output as _envoy_extensions_common_ratelimit_v3_RateLimitDescriptor__Output } from '../../../../envoy/extensions/common/ratelimit/v3/RateLimitDescriptor.ts';

export interface RateLimitRequest {
  'domain'?: (string);
  'descriptors'?: (_envoy_extensions_common_ratelimit_v3_RateLimitDescriptor)[];
  'hitsAddend'?: (number);
}

export interface RateLimitRequest__Output {
  'domain': (string);
  'descriptors': (_envoy_extensions_common_ratelimit_v3_RateLimitDescriptor__Output)[];
  'hitsAddend': (number);
}
