// Original file: ratelimit/config/ratelimit/v3/rls_conf.proto

import type { RateLimitPolicy as _ratelimit_config_ratelimit_v3_RateLimitPolicy, RateLimitPolicy__Output as _ratelimit_config_ratelimit_v3_RateLimitPolicy__Output } from '../../../../ratelimit/config/ratelimit/v3/RateLimitPolicy.ts';
import type { RateLimitDescriptor as _ratelimit_config_ratelimit_v3_RateLimitDescriptor, RateLimitDescriptor__Output as _ratelimit_config_ratelimit_v3_RateLimitDescriptor__Output } from '../../../../ratelimit/config/ratelimit/v3/RateLimitDescriptor.ts';
import type { Struct as _google_protobuf_Struct, Struct__Output as _google_protobuf_Struct__Output } from '../../../../google/protobuf/Struct.ts';

export interface RateLimitDescriptor {
  'key'?: (string);
  'value'?: (string);
  'rateLimit'?: (_ratelimit_config_ratelimit_v3_RateLimitPolicy | null);
  'descriptors'?: (_ratelimit_config_ratelimit_v3_RateLimitDescriptor)[];
  'shadowMode'?: (boolean);
  'detailedMetric'?: (boolean);
  'quotaMode'?: (boolean);
  'metadata'?: (_google_protobuf_Struct | null);
}

export interface RateLimitDescriptor__Output {
  'key': (string);
  'value': (string);
  'rateLimit': (_ratelimit_config_ratelimit_v3_RateLimitPolicy__Output | null);
  'descriptors': (_ratelimit_config_ratelimit_v3_RateLimitDescriptor__Output)[];
  'shadowMode': (boolean);
  'detailedMetric': (boolean);
  'quotaMode': (boolean);
  'metadata': (_google_protobuf_Struct__Output | null);
}
