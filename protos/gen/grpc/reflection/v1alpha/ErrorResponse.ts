// Original file: grpc/reflection/v1alpha/reflection.proto


export interface ErrorResponse {
  'errorCode'?: (number);
  'errorMessage'?: (string);
}

export interface ErrorResponse__Output {
  'errorCode': (number);
  'errorMessage': (string);
}
