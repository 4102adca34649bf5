// Original file: grpc/reflection/v1alpha/reflection.proto


export interface ExtensionNumberResponse {
  'baseTypeName'?: (string);
  'extensionNumber'?: (number)[];
}

export interface ExtensionNumberResponse__Output {
  'baseTypeName': (string);
  'extensionNumber': (number)[];
}
