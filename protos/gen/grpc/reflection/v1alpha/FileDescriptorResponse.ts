// Original file: grpc/reflection/v1alpha/reflection.proto


export interface FileDescriptorResponse {
  'fileDescriptorProto'?: (Buffer | Uint8Array | string)[];
}

export interface FileDescriptorResponse__Output {
  'fileDescriptorProto': (Buffer)[];
}
