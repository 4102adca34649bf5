// Original file: grpc/reflection/v1alpha/reflection.proto

import type { ServerReflectionRequest as _grpc_reflection_v1alpha_ServerReflectionRequest, ServerReflectionRequest__Output as _grpc_reflection_v1alpha_ServerReflectionRequest__Output } from '../../../grpc/reflection/v1alpha/ServerReflectionRequest.ts';
import type { FileDescriptorResponse as _grpc_reflection_v1alpha_FileDescriptorResponse, FileDescriptorResponse__Output as _grpc_reflection_v1alpha_FileDescriptorResponse__Output } from '../../../grpc/reflection/v1alpha/FileDescriptorResponse.ts';
import type { ExtensionNumberResponse as _grpc_reflection_v1alpha_ExtensionNumberResponse, ExtensionNumberResponse__Output as _grpc_reflection_v1alpha_ExtensionNumberResponse__Output } from '../../../grpc/reflection/v1alpha/ExtensionNumberResponse.ts';
import type { ListServiceResponse as _grpc_reflection_v1alpha_ListServiceResponse, ListServiceResponse__Output as _grpc_reflection_v1alpha_ListServiceResponse__Output } from '../../../grpc/reflection/v1alpha/ListServiceResponse.ts';
import type { ErrorResponse as _grpc_reflection_v1alpha_ErrorResponse, ErrorResponse__Output as _grpc_reflection_v1alpha_ErrorResponse__Output } from '../../../grpc/reflection/v1alpha/ErrorResponse.ts';

export interface ServerReflectionResponse {
  'validHost'?: (string);
  'originalRequest'?: (_grpc_reflection_v1alpha_ServerReflectionRequest | null);
  'fileDescriptorResponse'?: (_grpc_reflection_v1alpha_FileDescriptorResponse | null);
  'allExtensionNumbersResponse'?: (_grpc_reflection_v1alpha_ExtensionNumberResponse | null);
  'listServicesResponse'?: (_grpc_reflection_v1alpha_ListServiceResponse | null);
  'errorResponse'?: (_grpc_reflection_v1alpha_ErrorResponse | null);
  'messageResponse'?: "fileDescriptorResponse"|"allExtensionNumbersResponse"|"listServicesResponse"|"errorResponse";
}

export interface ServerReflectionResponse__Output {
  'validHost': (string);
  'originalRequest': (_grpc_reflection_v1alpha_ServerReflectionRequest__Output | null);
  'fileDescriptorResponse'?: (_grpc_reflection_v1alpha_FileDescriptorResponse__Output | null);
  'allExtensionNumbersResponse'?: (_grpc_reflection_v1alpha_ExtensionNumberResponse__Output | null);
  'listServicesResponse'?: (_grpc_reflection_v1alpha_ListServiceResponse__Output | null);
  'errorResponse'?: (_grpc_reflection_v1alpha_ErrorResponse__Output | null);
  'messageResponse'?: "fileDescriptorResponse"|"allExtensionNumbersResponse"|"listServicesResponse"|"errorResponse";
}
