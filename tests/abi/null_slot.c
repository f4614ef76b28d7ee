/* Its process() is null. */
#include "minimal_stage.h"
static const kinora_stage null_stage = {sizeof(kinora_stage), 0, minimal_create, minimal_destroy, minimal_resources, NULL, NULL};
MINIMAL_PLUGIN("null_slot", sizeof(kinora_plugin), 1, 0, "stage/minimal", KINORA_STAGE, &null_stage)
