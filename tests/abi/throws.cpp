// A stage in C++ without the SDK and its guards: exceptions leave it.
#include <stdexcept>

#include "kinora/abi/plugin.h"
#include "kinora/abi/stage.h"

namespace {

#ifdef THROWS_WHEN_OPENED
const int opened = []() -> int { throw 42; }();
#endif

void* create(const kinora_host* host, const kinora_options*) { return const_cast<kinora_host*>(host); }
void destroy(void*) {}
int32_t resources(void*, kinora_resources* out) {
  const kinora_resources one{sizeof one, 0, 1.0, 0.0, 0, 0, 0, 0, 0};
  KINORA_FILL(out, &one);
  return KINORA_OK;
}
int32_t process(void*, kinora_sample*, const kinora_emit*, const kinora_run*) {
  throw std::runtime_error("the decoder is confused");
}

const kinora_stage stage{
    sizeof(kinora_stage), 0, create, destroy, resources, process, nullptr, nullptr, nullptr};
const kinora_component component{
    sizeof(kinora_component), 0, "stage/ends", KINORA_INTERFACE_STAGE, &stage, nullptr, nullptr};
const kinora_plugin plugin{sizeof(kinora_plugin), 1, 0, 1, "ends", "0.1.0", &component};

}  // namespace

extern "C" KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host*) { return &plugin; }
