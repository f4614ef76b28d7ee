// Stages that work on several samples. Pairs joins every two consecutive samples into one: the key and the
// facts of the joined sample are those of a clip of the first one, and the host must not infer from them what
// it was made of.
#include <chrono>
#include <optional>
#include <span>
#include <thread>

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
  struct Options {
    int64_t most = 4, ordered = 2, milliseconds = 0;
    double cores = 1.0;
  };
  static void describe(kinora::Describe<Options>& d) {
    d.name("together").help("Processes several samples at once; for tests");
    d.option("most", &Options::most).range(1, 64).help("samples of one call");
    d.option("ordered", &Options::ordered).range(0, 2).help("value of `ordered` in resources()");
    d.option("milliseconds", &Options::milliseconds).range(0, 100000).help("sleep of each call");
    d.option("cores", &Options::cores).range(0, 64).help("value of `cores` in resources()");
  }
  explicit Together(const Options& o) : options_(o) {}
  kinora_resources resources() const override {
    return {sizeof(kinora_resources),
            static_cast<uint32_t>(options_.ordered),
            options_.cores,
            0.0,
            0,
            0,
            0,
            0,
            static_cast<uint32_t>(options_.most)};
  }
  void process(kinora::Sample in, const kinora::Emit& emit, const kinora::Run& run) override {
    process_batch({&in, 1}, emit, run);
  }
  void process_batch(std::span<const kinora::Sample> in, const kinora::Emit& emit,
                     const kinora::Run&) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(options_.milliseconds));
    for (kinora::Sample one : in) {
      one.set("together", std::to_string(in.size()));
      emit(std::move(one));
    }
  }

 private:
  Options options_;
};

}  // namespace
KINORA_COMPONENT(Together)
KINORA_COMPONENT(Pairs)
