/* Exports more than its entry. */
#include "minimal_stage.h"
KINORA_EXPORT int own_a(void);
KINORA_EXPORT int own_a(void) { return 1; }
KINORA_EXPORT int own_b(void);
KINORA_EXPORT int own_b(void) { return 2; }
KINORA_EXPORT int own_c(void);
KINORA_EXPORT int own_c(void) { return 3; }
KINORA_EXPORT extern int own_d;
int own_d = 4;
MINIMAL_PLUGIN("ends", sizeof(kinora_plugin), 1, 0, "stage/ends", KINORA_INTERFACE_STAGE, &minimal_stage)
