// The virtual call that a plugin call is compared with, out of the compiler's sight (bench.hpp).
#include "apps/bench/bench.hpp"

namespace kinora {
namespace {

struct VirtualStage final : Virtual {
  int32_t start(const kinora_run*) override { return KINORA_OK; }
};

}  // namespace

std::unique_ptr<Virtual> make_virtual() { return std::make_unique<VirtualStage>(); }

}  // namespace kinora
