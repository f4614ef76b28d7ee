/* kinora.storage/1: reads and writes objects (file, s3). Stages use kinora.io/1 instead.        since ABI 1.0
 */
#ifndef KINORA_ABI_STORAGE_H
#define KINORA_ABI_STORAGE_H
#include "kinora/abi/host.h"
#include "kinora/abi/options.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_STORAGE "kinora.storage/1"
/* Most bytes of an object of put_if() and read_small(). */
#define KINORA_STORAGE_SMALL 1048576u
/* Of put_if() and remove_if(): the object has another tag than the caller expects, and stays as it is. */
#define KINORA_SIGNAL_CONFLICT 3

typedef struct kinora_entry {
  uint32_t struct_size;
  uint32_t folder; /* 1: a folder */
  kinora_str name; /* relative to the listed folder; valid during the callback */
  uint64_t size;
  int64_t modified; /* nanoseconds since 1970 */
} kinora_entry;

typedef struct kinora_storage {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] */
  void* (*create)(const kinora_host*, const kinora_options*);
  void (*destroy)(void* self);
  /* [any-thread] Opens for random access. path: the part after "SCHEME://"; for files the path.
   * KINORA_ERROR_NOT_FOUND, KINORA_ERROR_IO. */
  int32_t (*open)(void* self, kinora_str path, void** reader, uint64_t* size);
  /* [any-thread] At most `size` bytes at `offset`; fewer only at the end. Calls on one reader may run at the
   * same time. KINORA_ERROR_IO. */
  int32_t (*read)(void* self, void* reader, uint64_t offset, void* to, uint64_t size, uint64_t* got);
  /* [any-thread] When no read of this reader is running. */
  void (*close)(void* self, void* reader);
  /* [any-thread] Begins a new object under a temporary name; creates missing folders. */
  int32_t (*begin)(void* self, kinora_str path, void** writer);
  /* [owner-thread] Appends. KINORA_ERROR_NO_MEMORY: the device is full. After an error the writer is only fit
   * for abort(). */
  int32_t (*append)(void* self, void* writer, const void* data, uint64_t size);
  /* [owner-thread] Flushes to the device and gives the final name at once; ends the writer, whatever it
   * returns. */
  int32_t (*commit)(void* self, void* writer);
  /* [owner-thread] Leaves nothing behind; ends the writer. */
  void (*abort)(void* self, void* writer);
  /* [any-thread] Lists the direct contents of a folder, in any order. `each` returns KINORA_OK or a status
   * that ends the listing and is returned. KINORA_ERROR_NOT_FOUND if the folder does not exist. */
  int32_t (*list)(void* self, kinora_str path, void* user, int32_t (*each)(void* user, const kinora_entry*));
  /* [any-thread] Removes an object; KINORA_ERROR_NOT_FOUND if it does not exist. */
  int32_t (*remove)(void* self, kinora_str path);
  /* [any-thread] The run was asked to stop: calls that are waiting now (for a server, a lock) return
   * KINORA_ERROR_CANCELLED as soon as they can. Cheap; the host may repeat it for calls that begin later. Null: no
   * call waits longer than a second. */
  void (*interrupt)(void* self);
  /* [any-thread] Writes a small object in one step if its tag is `tag`, or, if `tag` is empty, if there is no object;
   * gives its new tag to `made`. A tag is printable ASCII that changes with the bytes. KINORA_SIGNAL_CONFLICT. Where
   * the answer to a try may be lost, an object with these bytes counts as written: the bytes name their writer.
   * Null, as each function below: not offered. */
  int32_t (*put_if)(void* self, kinora_str path, kinora_bytes bytes, kinora_str tag, const kinora_sink* made);
  /* [any-thread] A whole small object and its tag. KINORA_ERROR_NOT_FOUND; KINORA_ERROR_UNSUPPORTED: it is larger. */
  int32_t (*read_small)(void* self, kinora_str path, const kinora_sink* bytes, const kinora_sink* tag);
  /* [any-thread] Removes the object if its tag is `tag`. KINORA_SIGNAL_CONFLICT, also if there is no object. */
  int32_t (*remove_if)(void* self, kinora_str path, kinora_str tag);
  /* [any-thread] Lists objects below a folder at any depth, without the folders, by their names relative to it, in
   * the order of the names' bytes: at most `most` names greater than `after`. Links to folders are left out. `each`
   * as of list(). A folder without objects has none. */
  int32_t (*list_from)(void* self, kinora_str path, kinora_str after, uint64_t most, void* user,
                       int32_t (*each)(void* user, const kinora_entry*));
} kinora_storage;

KINORA_SLOT(kinora_entry, struct_size, 0);
KINORA_SLOT(kinora_entry, folder, 4);
KINORA_SLOT(kinora_entry, name, 8);
KINORA_SLOT(kinora_entry, size, 24);
KINORA_SLOT(kinora_entry, modified, 32);
KINORA_SIZE(kinora_entry, 40);
KINORA_SLOT(kinora_storage, struct_size, 0);
KINORA_SLOT(kinora_storage, reserved, 4);
KINORA_SLOT(kinora_storage, create, 8);
KINORA_SLOT(kinora_storage, destroy, 16);
KINORA_SLOT(kinora_storage, open, 24);
KINORA_SLOT(kinora_storage, read, 32);
KINORA_SLOT(kinora_storage, close, 40);
KINORA_SLOT(kinora_storage, begin, 48);
KINORA_SLOT(kinora_storage, append, 56);
KINORA_SLOT(kinora_storage, commit, 64);
KINORA_SLOT(kinora_storage, abort, 72);
KINORA_SLOT(kinora_storage, list, 80);
KINORA_SLOT(kinora_storage, remove, 88);
KINORA_SLOT(kinora_storage, interrupt, 96);
KINORA_SLOT(kinora_storage, put_if, 104);
KINORA_SLOT(kinora_storage, read_small, 112);
KINORA_SLOT(kinora_storage, remove_if, 120);
KINORA_SLOT(kinora_storage, list_from, 128);
KINORA_SIZE(kinora_storage, 136);
KINORA_EXTERN_C_END
#endif
