/* Its process() is null. */
#include "minimal_stage.h"
static const kinora_stage null_stage = {.struct_size = sizeof(kinora_stage),
                                        .create = minimal_create,
                                        .destroy = minimal_destroy,
                                        .resources = minimal_resources};
MINIMAL_PLUGIN("null_slot", sizeof(kinora_plugin), 1, 0, "stage/minimal", KINORA_INTERFACE_STAGE, &null_stage)
