// Original file: grpc/reflection/v1alpha/reflection.proto


export interface ServiceResponse {
  'name'?: (string);
}

export interface ServiceResponse__Output {
  'name': (string);
}
