// stage/brightness: measures the frames and drops samples that are darker than a bound.
#include <charconv>
#include <string>

#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"

class Brightness final : public kinora::Stage {
 public:
  struct Options {
    double at_least = 0.1;
  };
  static void describe(kinora::Describe<Options>& d) {
    d.name("brightness").help("Drops samples that are darker than a bound");
    d.option("at_least", &Options::at_least).range(0, 1).help("mean of the frames, 0 black to 1 white");
    d.input("frames", "[T, H, W, 3]", "uint8", "made by video.read; a sample without it passes",
            {.optional = true});
  }
  explicit Brightness(const Options& o) : options_(o) {}

  void process(kinora::Sample in, const kinora::Emit& emit, const kinora::Run&) override {
    const kinora_dl_tensor* frames = in.tensor("frames");
    if (!frames) {
      in.set("brightness.json",
             R"({"mean":null,"why":"no frames; put the stage video.read before this one"})");
      return emit(std::move(in));
    }
    const double mean = mean_of(*frames, in.key());
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, mean).ptr;
    in.set("brightness.json", "{\"mean\":" + std::string(digits, end) + "}");
    if (mean < options_.at_least) return emit.drop(std::move(in), "brightness.too-dark", mean);
    emit(std::move(in));
  }

 private:
  static double mean_of(const kinora_dl_tensor& t, std::string_view key) {
    if (t.code != KINORA_DL_UINT || t.bits != 8 || t.ndim != 4 || !kinora::is_row_major(t))
      throw kinora::Error(KINORA_ERROR_INVALID,
                          std::string(key) + ": frames must be row-major uint8 [T, H, W, 3]");
    const auto* pixels = static_cast<const uint8_t*>(t.data) + t.byte_offset;
    const int64_t n = t.shape[0] * t.shape[1] * t.shape[2] * t.shape[3];
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += pixels[i];
    return n ? static_cast<double>(sum) / (255.0 * static_cast<double>(n)) : 0;
  }

  Options options_;
};
KINORA_COMPONENT(Brightness)
KINORA_PLUGIN(Brightness)
