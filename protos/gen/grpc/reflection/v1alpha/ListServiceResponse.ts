// Original file: grpc/reflection/v1alpha/reflection.proto

import type { ServiceResponse as _grpc_reflection_v1alpha_ServiceResponse, ServiceResponse__Output as _grpc_reflection_v1alpha_ServiceResponse__Output } from '../../../grpc/reflection/v1alpha/ServiceResponse.ts';

export interface ListServiceResponse {
  'service'?: (_grpc_reflection_v1alpha_ServiceResponse)[];
}

export interface ListServiceResponse__Output {
  'service': (_grpc_reflection_v1alpha_ServiceResponse__Output)[];
}
