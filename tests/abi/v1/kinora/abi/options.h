/* kinora.options/1: a component's options: values from the TOML, defaults from the manifest.  since ABI 1.0
 *
 * Names, types and ranges are checked and defaults filled in before create() is called: every option of the manifest
 * is present. Manifest types and the function that reads them:
 *   int, size (bytes; "2 GiB" in TOML)  get_int      float   get_float     bool    get_int (0 or 1)
 *   string, path                        get_string   ints, floats, strings, paths: the same, index 0..count-1 */
#ifndef KINORA_ABI_OPTIONS_H
#define KINORA_ABI_OPTIONS_H
#include "kinora/abi/base.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_OPTIONS "kinora.options/1"

typedef struct kinora_options kinora_options; /* opaque, borrowed for create() */

typedef struct kinora_options_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] Number of items of a list, 1 for a scalar; KINORA_ERROR_NOT_FOUND if the manifest does not
   * have the option. */
  int32_t (*count)(const kinora_options*, const char* name, int64_t* out);
  /* [any-thread], all three. index 0 for a scalar. KINORA_ERROR_NOT_FOUND if the manifest does not have the
   * option, KINORA_ERROR_INVALID if it has another type or the index is out of range. */
  int32_t (*get_int)(const kinora_options*, const char* name, int64_t index, int64_t* out);
  int32_t (*get_float)(const kinora_options*, const char* name, int64_t index, double* out);
  /* The string lives as long as the options. Paths are absolute. */
  int32_t (*get_string)(const kinora_options*, const char* name, int64_t index, kinora_str* out);
  /* [any-thread] All options as canonical JSON (sorted keys, 17 digits), for a cache key or another process.
   * Lives as long as the options. */
  int32_t (*json)(const kinora_options*, kinora_str* out);
} kinora_options_api;

KINORA_SLOT(kinora_options_api, struct_size, 0);
KINORA_SLOT(kinora_options_api, reserved, 4);
KINORA_SLOT(kinora_options_api, count, 8);
KINORA_SLOT(kinora_options_api, get_int, 16);
KINORA_SLOT(kinora_options_api, get_float, 24);
KINORA_SLOT(kinora_options_api, get_string, 32);
KINORA_SLOT(kinora_options_api, json, 40);
KINORA_SIZE(kinora_options_api, 48);
KINORA_EXTERN_C_END
#endif
