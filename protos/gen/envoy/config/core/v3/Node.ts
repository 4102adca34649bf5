// Original file: envoy/config/core/v3/base.proto

import type { Struct as _google_protobuf_Struct, Struct__Output as _google_protobuf_Struct__Output } from '../../../../google/protobuf/Struct.ts';

export interface Node {
  'id'?: (string);
  'cluster'?: (string);
  'metadata'?: (_google_protobuf_Struct | null);
  'userAgentName'?: (string);
}

export interface Node__Output {
  'id': (string);
  'cluster': (string);
  'metadata': (_google_protobuf_Struct__Output | null);
  'userAgentName': (string);
}
