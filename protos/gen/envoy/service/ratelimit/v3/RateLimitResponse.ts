// Original file: envoy/service/ratelimit/v3/rls.proto

import type { HeaderValue as _envoy_config_core_v3_HeaderValue, HeaderValue__Output as _envoy_config_core_v3_HeaderValue__Output } from '../../../../envoy/config/core/v3/HeaderValue.ts';
import type { Struct as _google_protobuf_Struct, Struct__Output as _google_protobuf_Struct__Output } from '../../../../google/protobuf/Struct.ts';
import type { UInt32Value as _google_protobuf_UInt32Value, UInt32Value__Output as _google_protobuf_UInt32Value__Output } from '../../../../google/protobuf/UInt32Value.ts';
import type { Timestamp as _google_protobuf_Timestamp, Timestamp__Output as _google_protobuf_Timestamp__Output } from '../../../../google/protobuf/Timestamp.ts';
import type { Duration as _google_protobuf_Duration, Duration__Output as _google_protobuf_Duration__Output } from '../../../../google/protobuf/Duration.ts';

// Original file: envoy/service/ratelimit/v3/rls.proto

export const _envoy_service_ratelimit_v3_RateLimitResponse_Code = {
  UNKNOWN: 'UNKNOWN',
  OK: 'OK',
  OVER_LIMIT: 'OVER_LIMIT',
} as const;

export type _envoy_service_ratelimit_v3_RateLimitResponse_Code =
  | 'UNKNOWN'
  | 0
  | 'OK'
  | 1
  | 'OVER_LIMIT'
  | 2

export type _envoy_service_ratelimit_v3_RateLimitResponse_Code__Output = typeof _envoy_service_ratelimit_v3_RateLimitResponse_Code[keyof typeof _envoy_service_ratelimit_v3_RateLimitResponse_Code]

export interface _envoy_service_ratelimit_v3_RateLimitResponse_DescriptorStatus {
  'code'?: (_envoy_service_ratelimit_v3_RateLimitResponse_Code);
  'currentLimit'?: (_envoy_service_ratelimit_v3_RateLimitResponse_RateLimit | null);
  'limitRemaining'?: (number);
  'durationUntilReset'?: (_google_protobuf_Duration | null);
  'quota'?: (_envoy_service_ratelimit_v3_RateLimitResponse_Quota | null);
}

export interface _envoy_service_ratelimit_v3_RateLimitResponse_DescriptorStatus__Output {
  'code': (_envoy_service_ratelimit_v3_RateLimitResponse_Code__Output);
  'currentLimit': (_envoy_service_ratelimit_v3_RateLimitResponse_RateLimit__Output | null);
  'limitRemaining': (number);
  'durationUntilReset': (_google_protobuf_Duration__Output | null);
  'quota': (_envoy_service_ratelimit_v3_RateLimitResponse_Quota__Output | null);
}

export interface _envoy_service_ratelimit_v3_RateLimitResponse_Quota {
  'requests'?: (number);
  'validUntil'?: (_google_protobuf_Timestamp | null);
  'id'?: (string);
  'expirationSpecifier'?: "validUntil";
}

export interface _envoy_service_ratelimit_v3_RateLimitResponse_Quota__Output {
  'requests': (number);
  'validUntil'?: (_google_protobuf_Timestamp__Output | null);
  'id': (string);
  'expirationSpecifier'?: "validUntil";
}

export interface _envoy_service_ratelimit_v3_RateLimitResponse_RateLimit {
  'requestsPerUnit'?: (number);
  'unit'?: (_envoy_service_ratelimit_v3_RateLimitResponse_RateLimit_Unit);
  'name'?: (string);
  'unitMultiplier'?: (_google_protobuf_UInt32Value | null);
}

export interface _envoy_service_ratelimit_v3_RateLimitResponse_RateLimit__Output {
  'requestsPerUnit': (number);
  'unit': (_envoy_service_ratelimit_v3_RateLimitResponse_RateLimit_Unit__Output);
  'name': (string);
  'unitMultiplier': (_google_protobuf_UInt32Value__Output | null);
}

// Original file: envoy/service/ratelimit/v3/rls.proto

export const _envoy_service_ratelimit_v3_RateLimitResponse_RateLimit_Unit = {
  UNKNOWN: 'UNKNOWN',
  SECOND: 'SECOND',
  MINUTE: 'MINUTE',
  HOUR: 'HOUR',
  DAY: 'DAY',
  MONTH: 'MONTH',
  YEAR: 'YEAR',
  WEEK: 'WEEK',
} as const;

export type _envoy_service_ratelimit_v3_RateLimitResponse_RateLimit_Unit =
  | 'UNKNOWN'
  | 0
  | 'SECOND'
  | 1
  | 'MINUTE'
  | 2
  | 'HOUR'
  | 3
  | 'DAY'
  | 4
  | 'MONTH'
  | 5
  | 'YEAR'
  | 6
  | 'WEEK'
  | 7

export type _envoy_service_ratelimit_v3_RateLimitResponse_RateLimit_Unit__Output = typeof _envoy_service_ratelimit_v3_RateLimitResponse_RateLimit_Unit[keyof typeof _envoy_service_ratelimit_v3_RateLimitResponse_RateLimit_Unit]

export interface RateLimitResponse {
  'overallCode'?: (_envoy_service_ratelimit_v3_RateLimitResponse_Code);
  'statuses'?: (_envoy_service_ratelimit_v3_RateLimitResponse_DescriptorStatus)[];
  'responseHeadersToAdd'?: (_envoy_config_core_v3_HeaderValue)[];
  'requestHeadersToAdd'?: (_envoy_config_core_v3_HeaderValue)[];
  'rawBody'?: (Buffer | Uint8Array | string);
  'dynamicMetadata'?: (_google_protobuf_Struct | null);
  'quota'?: (_envoy_service_ratelimit_v3_RateLimitResponse_Quota | null);
}

export interface RateLimitResponse__Output {
  'overallCode': (_envoy_service_ratelimit_v3_RateLimitResponse_Code__Output);
  'statuses': (_envoy_service_ratelimit_v3_RateLimitResponse_DescriptorStatus__Output)[];
  'responseHeadersToAdd': (_envoy_config_core_v3_HeaderValue__Output)[];
  'requestHeadersToAdd': (_envoy_config_core_v3_HeaderValue__Output)[];
  'rawBody': (Buffer);
  'dynamicMetadata': (_google_protobuf_Struct__Output | null);
  'quota': (_envoy_service_ratelimit_v3_RateLimitResponse_Quota__Output | null);
}
