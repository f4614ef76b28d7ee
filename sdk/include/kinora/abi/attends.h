/* kinora.attends/1-draft.2: a link that attends by itself.                                    draft
 *
 * The link of a strategy whose attention over split keys never reaches the links below (keys that travel
 * around a ring) offers this table through get_interface of its context, from bind() on. A precision that rounds
 * queries and keys refuses to be below such a link, before anything runs.
 *
 * Draft: it becomes 1.0 together with kinora.link. */
#ifndef KINORA_ABI_ATTENDS_H
#define KINORA_ABI_ATTENDS_H
#include "kinora/abi/base.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_ATTENDS "kinora.attends/1-draft.2"

typedef struct kinora_attends {
  uint32_t struct_size;
  uint32_t reserved;
  const char* name; /* of the strategy; lives as long as the link, as the table does */
} kinora_attends;

KINORA_SLOT(kinora_attends, struct_size, 0);
KINORA_SLOT(kinora_attends, reserved, 4);
KINORA_SLOT(kinora_attends, name, 8);
KINORA_SIZE(kinora_attends, 16);
KINORA_EXTERN_C_END
#endif
