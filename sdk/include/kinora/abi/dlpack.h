/* kinora/abi/dlpack.h: tensors for code that does not use libtorch.                           since ABI 1.0
 *
 * kinora_dl_managed has, byte for byte, the layout of DLPack 1.x's DLManagedTensorVersioned, and
 * kinora_dl_tensor that of DLTensor: a plugin that includes dlpack.h may cast. Source:
 * github.com/dmlc/dlpack, include/dlpack/dlpack.h. */
#ifndef KINORA_ABI_DLPACK_H
#define KINORA_ABI_DLPACK_H
#include "kinora/abi/base.h"
KINORA_EXTERN_C_BEGIN

#define KINORA_DL_CPU 1
#define KINORA_DL_CUDA 2
#define KINORA_DL_INT 0u
#define KINORA_DL_UINT 1u
#define KINORA_DL_FLOAT 2u
#define KINORA_DL_BFLOAT 4u
#define KINORA_DL_BOOL 6u
#define KINORA_DL_READ_ONLY 1ull

typedef struct kinora_dl_tensor {
  void* data; /* on the device; the first element is byte_offset bytes after it. May be null if there are no
                 elements */
  int32_t device_type; /* KINORA_DL_CPU, KINORA_DL_CUDA */
  int32_t device_id;
  int32_t ndim;
  uint8_t code;   /* KINORA_DL_INT ... */
  uint8_t bits;   /* size of an element: 8, 16, 32, 64 */
  uint16_t lanes; /* 1 */
  int64_t* shape; /* [ndim], as strides; both belong to the maker of the tensor and live as long as it */
  int64_t*
      strides; /* in elements. A writer fills them in where ndim > 0; a reader takes null for row-major */
  uint64_t byte_offset;
} kinora_dl_tensor;

typedef struct kinora_dl_managed {
  uint32_t major; /* 1; if it is different, only deleter may be called */
  uint32_t minor;
  void* manager;                              /* private to the maker */
  void (*deleter)(struct kinora_dl_managed*); /* [any-thread] once, when the last user is
                                                 done; null: nothing to free */
  uint64_t flags;                             /* KINORA_DL_READ_ONLY: do not write to data */
  kinora_dl_tensor tensor;
} kinora_dl_managed;

KINORA_SLOT(kinora_dl_tensor, data, 0);
KINORA_SLOT(kinora_dl_tensor, device_type, 8);
KINORA_SLOT(kinora_dl_tensor, device_id, 12);
KINORA_SLOT(kinora_dl_tensor, ndim, 16);
KINORA_SLOT(kinora_dl_tensor, code, 20);
KINORA_SLOT(kinora_dl_tensor, bits, 21);
KINORA_SLOT(kinora_dl_tensor, lanes, 22);
KINORA_SLOT(kinora_dl_tensor, shape, 24);
KINORA_SLOT(kinora_dl_tensor, strides, 32);
KINORA_SLOT(kinora_dl_tensor, byte_offset, 40);
KINORA_SIZE(kinora_dl_tensor, 48);
KINORA_SLOT(kinora_dl_managed, major, 0);
KINORA_SLOT(kinora_dl_managed, minor, 4);
KINORA_SLOT(kinora_dl_managed, manager, 8);
KINORA_SLOT(kinora_dl_managed, deleter, 16);
KINORA_SLOT(kinora_dl_managed, flags, 24);
KINORA_SLOT(kinora_dl_managed, tensor, 32);
KINORA_SIZE(kinora_dl_managed, 80);
KINORA_EXTERN_C_END
#endif
