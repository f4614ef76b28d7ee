// Replaces stage/video.read: emits grey frames for any sample, and kills its process at one with "bad" in its
// key. For tests.
#include <csignal>

#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"

namespace {

class FaultyReader final : public kinora::Stage {
 public:
  struct Options {
    int64_t height = 16, width = 16, stride = 1, memory = 0;
  };
  static void describe(kinora::Describe<Options>& d) {
    d.name("video.read")
        .help("Makes grey frames for any sample, and ends its process at a bad one; for tests");
    d.option("height", &Options::height).range(1, 1024).help("height of the frames");
    d.option("width", &Options::width).range(1, 1024).help("width of the frames");
    d.option("stride", &Options::stride).range(1, 1000).help("every n-th of 32 frames");
    d.option("memory", &Options::memory).at_least(0).help("ignored");
    d.output("frames", "[T, H, W, 3]", "uint8", "a tensor of the sample");
  }
  explicit FaultyReader(const Options& o) : options_(o) {}
  kinora_resources resources() const override {
    return {sizeof(kinora_resources), 0, 1.0, 0.0, 0, 1, 0, 0, 0};
  }

  void process(kinora::Sample in, const kinora::Emit& emit, const kinora::Run&) override {
    if (in.key().find("bad") != std::string_view::npos) ::raise(SIGSEGV);
    const int64_t frames = (32 + options_.stride - 1) / options_.stride,
                  row = options_.height * options_.width * 3;
    std::vector<uint8_t> pixels;
    for (int64_t t = 0; t < frames; ++t)
      pixels.insert(pixels.end(), static_cast<size_t>(row), static_cast<uint8_t>(100 + 4 * t));
    in.set_tensor("frames", std::move(pixels), {frames, options_.height, options_.width, 3}, KINORA_DL_UINT,
                  8);
    emit(std::move(in));
  }

 private:
  Options options_;
};

}  // namespace
KINORA_COMPONENT(FaultyReader)
KINORA_PLUGIN(FaultyReader)
