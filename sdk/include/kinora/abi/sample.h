/* kinora.samples/1: the data type of stages, shards, engines and caches.                      since ABI 1.0
 *
 * A sample is a record of WebDataset: a key and named byte fields ("video-0003", fields "mp4", "json", "txt"). Decoded
 * frames and other tensors accompany the fields in memory and are never stored as they are.
 * Field names are WebDataset extensions, without a leading dot. Names in use, and their contents:
 *   url    path or URI of the media; the media's bytes may be absent
 *   mp4 .. the media itself
 *   txt    the caption, UTF-8
 *   json   facts about the sample, one JSON object; stages add members and keep those of others. "film" is the key of
 *          the video that the sample was cut from
 *   shots.json  {"fps","frames","cuts","scores"} of a source video
 *   ended.json  array of keys: the samples made of this video whose outcome was recorded in an earlier, interrupted
 *               run. A stage that makes samples of the video may skip these to save work; the engine does not pass
 *               them on again
 * Tensors in use, and their contents:
 *   frames      uint8 [T, H, W, 3]: sampled frames, RGB, upright. Their times are the fact frames_at of field json:
 *               seconds from the start of this sample's video, one per frame
 *   thumbnails  uint8 [T, 27, 48, 3]: all frames of a source video, small
 *   times_us    int64 [T]: presentation times of the thumbnails in microseconds
 * A sample belongs to one thread at a time. The bytes of its fields and the elements of its tensors are read-only
 * and shared between clones, so that a source video's bytes are not copied into each of its clips: who changes
 * them makes new ones and sets those. Reference counts are atomic. */
#ifndef KINORA_ABI_SAMPLE_H
#define KINORA_ABI_SAMPLE_H
#include "kinora/abi/dlpack.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_SAMPLES "kinora.samples/1"

typedef struct kinora_sample kinora_sample; /* opaque, counted */

typedef struct kinora_samples_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] A new sample without fields; count 1. Keys become names of files: one or more parts between
   * '/', none of them empty, ".", ".." or longer than 200 bytes, without control characters; else
   * KINORA_ERROR_INVALID. A job that stores samples is stricter: it fails a sample (KINORA_ERROR_INVALID)
   * whose key is not UTF-8 or has a '.' in its last part, since the name of a field follows the first '.'. */
  int32_t (*create)(kinora_str key, kinora_sample** out);
  /* [any-thread] A new sample under another key, with the same byte fields and tensors (shared, not copied);
   * count 1. */
  int32_t (*clone)(const kinora_sample*, kinora_str key, kinora_sample** out);
  /* [any-thread] Adds or removes one reference; the last one removed destroys the sample. */
  void (*retain)(kinora_sample*);
  void (*release)(kinora_sample*);
  /* [owner-thread] Lives as long as the sample. */
  kinora_str (*key)(const kinora_sample*);
  /* [owner-thread] Byte fields in the order they were set; KINORA_ERROR_NOT_FOUND past the last. Name and value
   * are valid until the field is set again or removed. */
  int32_t (*field)(const kinora_sample*, uint64_t index, kinora_str* name, kinora_bytes* value);
  /* [owner-thread] The field `name`; KINORA_ERROR_NOT_FOUND (without an error message) if absent. Valid until
   * the field is set again or removed. */
  int32_t (*get)(const kinora_sample*, const char* name, kinora_bytes* out);
  /* [owner-thread] Sets or replaces. With release null the bytes are copied; else they are kept and
   * release(user) is called once, on any thread, when no sample uses them. On an error release is not called.
   */
  int32_t (*set)(kinora_sample*, const char* name, kinora_bytes value, void (*release)(void* user),
                 void* user);
  /* [owner-thread] Removes a byte field or a tensor, if it exists. */
  void (*remove)(kinora_sample*, const char* name);
  /* [owner-thread] The tensor called `name`, in memory of the CPU and row-major, now and in every later minor;
   * read-only, borrowed, valid until it is set again or removed. KINORA_ERROR_NOT_FOUND if absent. */
  int32_t (*get_tensor)(const kinora_sample*, const char* name, const kinora_dl_tensor** out);
  /* [owner-thread] Takes ownership of the tensor and replaces one of the same name; its deleter runs when no sample
   * uses it. On an error it stays the caller's. Refused is what no reader can use: KINORA_ERROR_UNSUPPORTED if it is
   * not in memory of the CPU, not row-major, or its elements are not of 8, 16, 32 or 64 bits in one lane, or of a
   * type that dlpack.h does not name; KINORA_ERROR_INVALID with elements and no memory, with more than 64 dimensions,
   * a negative one, or a size or an offset that no memory has. */
  int32_t (*set_tensor)(kinora_sample*, const char* name, kinora_dl_managed* tensor);
  /* [owner-thread] Bytes that this sample keeps alive, tensors included: what a memory bound counts. */
  uint64_t (*memory)(const kinora_sample*);
} kinora_samples_api;

KINORA_SLOT(kinora_samples_api, struct_size, 0);
KINORA_SLOT(kinora_samples_api, reserved, 4);
KINORA_SLOT(kinora_samples_api, create, 8);
KINORA_SLOT(kinora_samples_api, clone, 16);
KINORA_SLOT(kinora_samples_api, retain, 24);
KINORA_SLOT(kinora_samples_api, release, 32);
KINORA_SLOT(kinora_samples_api, key, 40);
KINORA_SLOT(kinora_samples_api, field, 48);
KINORA_SLOT(kinora_samples_api, get, 56);
KINORA_SLOT(kinora_samples_api, set, 64);
KINORA_SLOT(kinora_samples_api, remove, 72);
KINORA_SLOT(kinora_samples_api, get_tensor, 80);
KINORA_SLOT(kinora_samples_api, set_tensor, 88);
KINORA_SLOT(kinora_samples_api, memory, 96);
KINORA_SIZE(kinora_samples_api, 104);
KINORA_EXTERN_C_END
#endif
