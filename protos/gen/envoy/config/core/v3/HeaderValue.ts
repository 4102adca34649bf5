// Original file: envoy/config/core/v3/base.proto


export interface HeaderValue {
  'key'?: (string);
  'value'?: (string);
  'rawValue'?: (Buffer | Uint8Array | string);
}

export interface HeaderValue__Output {
  'key': (string);
  'value': (string);
  'rawValue': (Buffer);
}
