// stage/brightness: measures the frames and drops samples that are darker than a bound.
#include <string>

#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"

class Brightness final : public kinora::Stage {
 public:
  struct Options {
    double at_least = 0.1;
    std::string mode = "on";
  };
  static void describe(kinora::Describe<Options>& d) {
    d.name("brightness").help("Drops samples that are darker than a bound: mean of the frames, 0 black to 1 white");
    d.score("brightness", "Lightness", "of white");
    d.option("at_least", &Options::at_least).range(0, 1).bound().help("smallest score that passes");
    d.option("mode", &Options::mode).choices({"on", "score"}).help("score: writes the score and drops nothing");
    d.input("frames", "[T, H, W, 3]", "uint8", "made by video.read, video.clips and others");
  }
  explicit Brightness(const Options& o) : options_(o) {}

  void process(kinora::Sample in, const kinora::Emit& emit, const kinora::Run& run) override {
    const double mean = mean_of(kinora::pictures_of(in), run);
    auto facts = kinora::json_field(in, "json");
    kinora::note_score(facts, "brightness", mean);
    const bool keep = mean >= options_.at_least || options_.mode == "score";
    if (!keep) kinora::note_bound(facts, "brightness", mean, options_.at_least, 1.0);
    in.set("json", kinora::json_text(facts));
    if (keep) return emit(std::move(in));
    emit.drop(std::move(in), "brightness", mean);
  }

 private:
  static double mean_of(const kinora::Pictures& pictures, const kinora::Run& run) {
    const int64_t bytes = pictures.height * pictures.width * 3;
    uint64_t sum = 0;
    for (int64_t t = 0; t < pictures.count; ++t) {
      run.check_cancelled();  // Ctrl-C ends it here
      for (int64_t i = 0; i < bytes; ++i) sum += pictures.frame(t)[i];
    }
    return static_cast<double>(sum) / (255.0 * static_cast<double>(pictures.count * bytes));
  }

  Options options_;
};
KINORA_COMPONENT(Brightness)
KINORA_PLUGIN(Brightness)
