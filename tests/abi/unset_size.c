/* Its author forgot struct_size. */
#include "minimal_stage.h"
MINIMAL_PLUGIN("unset_size", 0, 1, 0, "stage/minimal", KINORA_INTERFACE_STAGE, &minimal_stage)
