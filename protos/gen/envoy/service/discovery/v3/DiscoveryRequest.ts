// Original file: envoy/service/discovery/v3/discovery.proto

import type { Node as _envoy_config_core_v3_Node, Node__Output as _envoy_config_core_v3_Node__Output } from '../../../../envoy/config/core/v3/Node.ts';
import type { Status as _google_rpc_Status, Status__Output as _google_rpc_Status__Output } from '../../../../google/rpc/Status.ts';

export interface DiscoveryRequest {
  'versionInfo'?: (string);
  'node'?: (_envoy_config_core_v3_Node | null);
  'resourceNames'?: (string)[];
  'typeUrl'?: (string);
  'responseNonce'?: (string);
  'errorDetail'?: (_google_rpc_Status | null);
}

export interface DiscoveryRequest__Output {
  'versionInfo': (string);
  'node': (_envoy_config_core_v3_Node__Output | null);
  'resourceNames': (string)[];
  'typeUrl': (string);
  'responseNonce': (string);
  'errorDetail': (_google_rpc_Status__Output | null);
}
