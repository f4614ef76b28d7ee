// A stage whose start() fails the first time, as when a file that it reads is not there yet.
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"

namespace {

class StartsLate final : public kinora::Stage {
 public:
  struct Options {};
  static void describe(kinora::Describe<Options>& d) {
    d.name("starts-late").help("Fails at its first start and counts the others; for tests");
  }
  explicit StartsLate(const Options&) {}
  void start(const kinora::Run&) override {
    if (++starts_ == 1) throw kinora::Error(KINORA_ERROR_FAILED, "not yet");
  }
  void process(kinora::Sample in, const kinora::Emit& emit, const kinora::Run&) override {
    in.set("starts", std::to_string(starts_));
    emit(std::move(in));
  }

 private:
  int starts_ = 0;
};

}  // namespace
KINORA_COMPONENT(StartsLate)
