/* The checks that the programs in C share which embed Kinora. */
#ifndef KINORA_TESTS_ABI_EMBED_CHECKS_H
#define KINORA_TESTS_ABI_EMBED_CHECKS_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinora/embed.h"

#define EXPECT(condition)                                                                                    \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      fprintf(stderr, "%d: %s does not hold; last error: %s\n", __LINE__, #condition, kinora_embed_error()); \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

static kinora_str text(const char* s) { return (kinora_str){s, strlen(s)}; }

static kinora_sample* sample_of(const char* key, const char* field, const void* data, uint64_t size) {
  kinora_sample* out = NULL;
  EXPECT(kinora_embed_samples()->create(text(key), &out) == KINORA_OK);
  EXPECT(kinora_embed_samples()->set(out, field, (kinora_bytes){data, size}, NULL, NULL) == KINORA_OK);
  return out;
}
#endif
