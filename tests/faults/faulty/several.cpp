// Stages that work on several samples. Pairs joins every two consecutive samples into one: the key and the
// facts of the joined sample are those of a clip of the first one, and the host must not infer from them what
// it was made of.
#include <optional>
#include <span>

#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"

namespace {

class Pairs final : public kinora::Stage {
 public:
  struct Options {};
  static void describe(kinora::Describe<Options>& d) {
    d.name("pairs").help("Joins every two consecutive samples into one; for tests");
  }
  explicit Pairs(const Options&) {}
  kinora_resources resources() const override { return {sizeof(kinora_resources), 2, 1.0, 0.0, 0}; }

  void process(kinora::Sample in, const kinora::Emit& emit, const kinora::Run&) override {
    if (!first_) {
      emit.hold();
      first_ = std::move(in);
      return;
    }
    const std::string first(first_->key());
    kinora::Sample joined = first_->clone(first + "-0000");
    joined.set("json", R"({"film":")" + first + R"("})");
    joined.set("pair", first + "+" + std::string(in.key()));
    emit(std::move(joined));
    emit.stored(first);
    first_.reset();
  }
  void finish(const kinora::Emit& emit, const kinora::Run&) override {
    if (first_) emit(std::move(*std::exchange(first_, std::nullopt)));
  }

 private:
  std::optional<kinora::Sample> first_;
};

// Writes the number of samples of each call into field together.
class Together final : public kinora::Stage {
 public:
  struct Options {};
  static void describe(kinora::Describe<Options>& d) {
    d.name("together").help("Processes up to four samples at once; for tests");
  }
  explicit Together(const Options&) {}
  kinora_resources resources() const override {
    return {sizeof(kinora_resources), 2, 1.0, 0.0, 0, 0, 0, 0, 4};
  }
  void process(kinora::Sample in, const kinora::Emit& emit, const kinora::Run& run) override {
    process_batch({&in, 1}, emit, run);
  }
  void process_batch(std::span<const kinora::Sample> in, const kinora::Emit& emit,
                     const kinora::Run&) override {
    for (kinora::Sample one : in) {
      one.set("together", std::to_string(in.size()));
      emit(std::move(one));
    }
  }
};

}  // namespace
KINORA_COMPONENT(Together)
KINORA_COMPONENT(Pairs)
