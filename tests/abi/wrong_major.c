/* Declares ABI 1 in its manifest and 2 in its table: a manifest from another build. */
#include "minimal_stage.h"
MINIMAL_PLUGIN("wrong_major", sizeof(kinora_plugin), 2, 0, "stage/minimal", KINORA_INTERFACE_STAGE,
               &minimal_stage)
