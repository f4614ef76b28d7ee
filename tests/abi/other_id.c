/* Has another component than its manifest. */
#include "minimal_stage.h"
MINIMAL_PLUGIN("other_id", sizeof(kinora_plugin), 1, 0, "stage/other", KINORA_INTERFACE_STAGE, &minimal_stage)
