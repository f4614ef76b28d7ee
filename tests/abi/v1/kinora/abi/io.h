/* kinora.io/1: files of any storage, by URI.                                                  since ABI 1.0
 *
 * The host chooses the storage component by the URI's scheme (none: storage/file). Writing is atomic: the
 * file appears under its final name on commit, complete and flushed to the device, or never. */
#ifndef KINORA_ABI_IO_H
#define KINORA_ABI_IO_H
#include "kinora/abi/storage.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_IO "kinora.io/1"

typedef struct kinora_reader kinora_reader; /* opaque */
typedef struct kinora_writer kinora_writer; /* opaque */

typedef struct kinora_io_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] Opens for random access. KINORA_ERROR_NOT_FOUND: no such file, or no storage for the scheme;
   * KINORA_ERROR_IO. */
  int32_t (*open)(kinora_str uri, kinora_reader** out);
  /* [any-thread] Size in bytes at the time of opening. */
  int64_t (*size)(kinora_reader*);
  /* [any-thread] Reads `size` bytes at `offset` into `to`. *got is less only if the file ends before, and 0
   * at or past its end. Calls on one reader may run at the same time. */
  int32_t (*read)(kinora_reader*, uint64_t offset, void* to, uint64_t size, uint64_t* got);
  /* [any-thread] When no read of this reader is running. */
  void (*close)(kinora_reader*);
  /* [any-thread] Begins a new file under a temporary name; creates missing folders. */
  int32_t (*create)(kinora_str uri, kinora_writer** out);
  /* [owner-thread] Appends. KINORA_ERROR_NO_MEMORY: the device is full; KINORA_ERROR_IO. The writer is then
   * only fit for abort(). */
  int32_t (*write)(kinora_writer*, const void* data, uint64_t size);
  /* [owner-thread] Gives the file its final name, replacing what was there; ends the writer, whatever it
   * returns. */
  int32_t (*commit)(kinora_writer*);
  /* [owner-thread] Leaves nothing behind; ends the writer. */
  void (*abort)(kinora_writer*);
  /* [any-thread] Lists the direct contents of a folder, in any order. `each` returns KINORA_OK or a status that
   * ends the listing and is returned. KINORA_ERROR_NOT_FOUND if the folder does not exist. */
  int32_t (*list)(kinora_str uri, void* user, int32_t (*each)(void* user, const kinora_entry*));
  /* [any-thread] Removes a file; KINORA_ERROR_NOT_FOUND if it does not exist. */
  int32_t (*remove)(kinora_str uri);
} kinora_io_api;

KINORA_SLOT(kinora_io_api, struct_size, 0);
KINORA_SLOT(kinora_io_api, reserved, 4);
KINORA_SLOT(kinora_io_api, open, 8);
KINORA_SLOT(kinora_io_api, size, 16);
KINORA_SLOT(kinora_io_api, read, 24);
KINORA_SLOT(kinora_io_api, close, 32);
KINORA_SLOT(kinora_io_api, create, 40);
KINORA_SLOT(kinora_io_api, write, 48);
KINORA_SLOT(kinora_io_api, commit, 56);
KINORA_SLOT(kinora_io_api, abort, 64);
KINORA_SLOT(kinora_io_api, list, 72);
KINORA_SLOT(kinora_io_api, remove, 80);
KINORA_SIZE(kinora_io_api, 88);
KINORA_EXTERN_C_END
#endif
