// Original file: envoy/extensions/common/ratelimit/v3/ratelimit.proto

import type { UInt64Value as _google_protobuf_UInt64Value, UInt64Value__Output as _google_protobuf_UInt64Value__Output } from '../../../../../google/protobuf/UInt64Value.ts';
import type { RateLimitUnit as _envoy_type_v3_RateLimitUnit, RateLimitUnit__Output as _envoy_type_v3_RateLimitUnit__Output } from '../../../../../envoy/type/v3/RateLimitUnit.ts';
import type { UInt32Value as _google_protobuf_UInt32Value, UInt32Value__Output as _google_protobuf_UInt32Value__Output } from '../../../../../google/protobuf/UInt32Value.ts';

export interface _envoy_extensions_common_ratelimit_v3_RateLimitDescriptor_Entry {
  'key'?: (string);
  'value'?: (string);
}

export interface _envoy_extensions_common_ratelimit_v3_RateLimitDescriptor_Entry__Output {
  'key': (string);
  'value': (string);
}

export interface _envoy_extensions_common_ratelimit_v3_RateLimitDescriptor_RateLimitOverride {
  'requestsPerUnit'?: (number);
  'unit'?: (_envoy_type_v3_RateLimitUnit);
  'unitMultiplier'?: (_google_protobuf_UInt32Value | null);
}

export interface _envoy_extensions_common_ratelimit_v3_RateLimitDescriptor_RateLimitOverride__Output {
  'requestsPerUnit': (number);
  'unit': (_envoy_type_v3_RateLimitUnit__Output);
  'unitMultiplier': (_google_protobuf_UInt32Value__Output | null);
}

export interface RateLimitDescriptor {
  'entries'?: (_envoy_extensions_common_ratelimit_v3_RateLimitDescriptor_Entry)[];
  'limit'?: (_envoy_extensions_common_ratelimit_v3_RateLimitDescriptor_RateLimitOverride | null);
  'hitsAddend'?: (_google_protobuf_UInt64Value | null);
  'isNegativeHits'?: (boolean);
}

export interface RateLimitDescriptor__Output {
  'entries': (_envoy_extensions_common_ratelimit_v3_RateLimitDescriptor_Entry__Output)[];
  'limit': (_envoy_extensions_common_ratelimit_v3_RateLimitDescriptor_RateLimitOverride__Output | null);
  'hitsAddend': (_google_protobuf_UInt64Value__Output | null);
  'isNegativeHits': (boolean);
}
