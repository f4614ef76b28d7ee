/* No defect: the manifest decides. */
#include "minimal_stage.h"
MINIMAL_PLUGIN("minimal", sizeof(kinora_plugin), 1, 0, "stage/minimal", KINORA_INTERFACE_STAGE,
               &minimal_stage)
