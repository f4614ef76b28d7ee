// Words for functions that a GPU and a processor both run.
#pragma once

#ifdef __CUDACC__
#define KINORA_BOTH __host__ __device__
#else
#define KINORA_BOTH
#endif
#ifdef __CUDA_ARCH__
#define KINORA_UNROLL _Pragma("unroll")       // so that arrays indexed by the loop stay in registers
#define KINORA_NO_UNROLL _Pragma("unroll 1")  // where a loop is rare and its copies would only use registers
#else
#define KINORA_UNROLL
#define KINORA_NO_UNROLL
#endif
