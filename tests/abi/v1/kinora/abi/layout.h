/* kinora/abi/layout.h: names of a model's or tokenizer's tensors in published weights.        since ABI 1.0
 *
 * The same network is published under several naming schemes ("blocks.0.self_attn.q.weight" by its authors,
 * "blocks.0.attn1.to_q.weight" by diffusers). A layout is one such scheme: two functions of names, since a
 * scheme may swap two names, which a list of replacements cannot express. The host detects which layout a
 * file has: the one under which most of its names are parameters. A component's own names are the layout
 * "kinora" and are not listed. */
#ifndef KINORA_ABI_LAYOUT_H
#define KINORA_ABI_LAYOUT_H
#include "kinora/abi/base.h"
KINORA_EXTERN_C_BEGIN

typedef struct kinora_layout {
  uint32_t struct_size;
  uint32_t reserved;
  const void* self;
  const char* name; /* as in the manifest: "original", "diffusers" */
  /* [any-thread] The parameter that the layout calls `name`. If it writes nothing, the tensor is not a
   * parameter (optimizer state, a computed buffer) and is dropped. Null: the host inverts `theirs` over the
   * names of the parameters and drops nothing; if that is null too, the layout's names are the component's
   * own. */
  int32_t (*ours)(const void* self, const char* name, const kinora_sink* out);
  /* [any-thread] The inverse: theirs(ours(n)) is n for every n that is not dropped. Null while `ours` is not:
   * this layout can be read, but not written. */
  int32_t (*theirs)(const void* self, const char* name, const kinora_sink* out);
} kinora_layout;

KINORA_SLOT(kinora_layout, struct_size, 0);
KINORA_SLOT(kinora_layout, reserved, 4);
KINORA_SLOT(kinora_layout, self, 8);
KINORA_SLOT(kinora_layout, name, 16);
KINORA_SLOT(kinora_layout, ours, 24);
KINORA_SLOT(kinora_layout, theirs, 32);
KINORA_SIZE(kinora_layout, 40);
KINORA_EXTERN_C_END
#endif
