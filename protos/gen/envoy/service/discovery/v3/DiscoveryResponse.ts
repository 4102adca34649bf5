// Original file: envoy/service/discovery/v3/discovery.proto

import type { Any as _google_protobuf_Any, Any__Output as _google_protobuf_Any__Output } from '../../../../google/protobuf/Any.ts';
import type { ControlPlane as _envoy_config_core_v3_ControlPlane, ControlPlane__Output as _envoy_config_core_v3_ControlPlane__Output } from '../../../../envoy/config/core/v3/ControlPlane.ts';

export interface DiscoveryResponse {
  'versionInfo'?: (string);
  'resources'?: (_google_protobuf_Any)[];
  'typeUrl'?: (string);
  'nonce'?: (string);
  'controlPlane'?: (_envoy_config_core_v3_ControlPlane | null);
}

export interface DiscoveryResponse__Output {
  'versionInfo': (string);
  'resources': (_google_protobuf_Any__Output)[];
  'typeUrl': (string);
  'nonce': (string);
  'controlPlane': (_envoy_config_core_v3_ControlPlane__Output | null);
}
