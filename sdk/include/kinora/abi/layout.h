/* kinora/abi/layout.h: what published weights call the tensors of a model or tokenizer.       since ABI 1.0
 *
 * One and the same network is published under several names ("blocks.0.self_attn.q.weight" by its authors,
 * "blocks.0.attn1.to_q.weight" by diffusers). A layout is one such naming scheme: two functions of names, since a scheme may
 * exchange two names, which no list of replacements says. The host finds out by itself which layout a file has: the one under
 * which most of its names are parameters. A component's own names are the layout "kinora" and are not listed. */
#ifndef KINORA_ABI_LAYOUT_H
#define KINORA_ABI_LAYOUT_H
#include "kinora/abi/base.h"
KINORA_EXTERN_C_BEGIN

typedef struct kinora_layout {
  uint32_t struct_size;
  uint32_t reserved;
  const void* self;
  const char* name; /* as in the manifest: "original", "diffusers" */
  /* [any-thread] The parameter that the layout calls `name`. Nothing written: no parameter (an optimizer's state, a buffer that
   * is computed), the tensor is dropped. Null: the host turns `theirs` round over the names of the parameters and drops nothing;
   * if that is null too, the layout's names are the component's own. */
  int32_t (*ours)(const void* self, const char* name, const kinora_sink* out);
  /* [any-thread] The way back: theirs(ours(n)) is n for every n that is not dropped. Null, where `ours` is not: this layout is
   * read, never written. */
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
