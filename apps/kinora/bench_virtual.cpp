// The virtual call that a plugin call is compared with, out of the compiler's sight (bench.hpp).
#include "apps/kinora/bench.hpp"

namespace kinora {
namespace {

struct VirtualStage final : Virtual {
  int32_t resources(kinora_resources* out) override {
    *out = {sizeof(kinora_resources), 0, 1.0, 0.0, 0};
    return KINORA_OK;
  }
};

}  // namespace

std::unique_ptr<Virtual> make_virtual() { return std::make_unique<VirtualStage>(); }

}  // namespace kinora
