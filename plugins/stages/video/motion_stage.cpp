// stage/filter.motion: drops clips with little motion, by their codec's motion vectors.
#include <limits>

#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "media/motion.hpp"
#include "media/sample_media.hpp"

namespace kinora::video {

class FilterMotion final : public Stage {
 public:
  struct Options {
    std::string mode = "on";
    double global_mean = 0.00098, patch_min = 0.000001, fps = 2, duration = 0.5;
    int64_t threads = 1;
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.motion")
        .help(
            "Drops clips with little motion, by their motion vectors; the scores equal Cosmos-Curate's. "
            "Clips too short to measure are kept");
    d.score("filter.motion", "Motion");
    d.score("filter.motion.patch_min", "Motion of the stillest part");
    d.option("mode", &Options::mode)
        .choices({"on", "score"})
        .help("score: records the scores and keeps every clip");
    d.option("global_mean", &Options::global_mean)
        .at_least(0)
        .help("smallest mean length of the vectors, in fractions of width + height");
    d.option("patch_min", &Options::patch_min)
        .at_least(0)
        .help("smallest mean length in the stillest patch of 256 x 256 pixels");
    d.option("fps", &Options::fps).above(0).help("frames per second that are measured");
    d.option("duration", &Options::duration)
        .above(0)
        .help("share of the clip, from its start, that is measured");
    d.option("threads", &Options::threads).range(1, 64).help("number of decoder threads");
  }
  explicit FilterMotion(const Options& o) : options_(o) {}
  kinora_resources resources() const override { return reads_media(options_.threads); }

  void process(Sample in, const Emit& emit, const Run& run) override {
    const Media media = open_media(in);
    MotionOptions how;
    how.fps = options_.fps;
    how.duration = options_.duration;
    how.threads = static_cast<int>(options_.threads);
    const Motion motion = media_call(
        [&] { return measure_motion(*media.source, media.name, how, [&] { run.check_cancelled(); }); });
    auto facts = facts_of(in);
    const bool measured = motion.frames > 0;
    if (measured) {
      facts["scores"]["filter.motion"] = motion.global_mean;
      facts["scores"]["filter.motion.patch_min"] = motion.patch_min;
    } else {
      facts["filter.motion"] =
          "not measured: none of the examined frames has motion vectors; a higher fps examines more";
    }
    const bool still = motion.global_mean < options_.global_mean,
               patch_still = motion.patch_min < options_.patch_min;
    // A clip that was not measured does not count as still.
    const bool is_dropped = options_.mode != "score" && measured && (still || patch_still);
    const double score = still ? motion.global_mean : motion.patch_min;
    if (is_dropped)
      note_bound(facts, "filter.motion", score, still ? options_.global_mean : options_.patch_min,
                 std::numeric_limits<double>::infinity());
    in.set("json", facts.dump());
    if (is_dropped) return emit.drop(std::move(in), "filter.motion", score);
    emit(std::move(in));
  }

 private:
  Options options_;
};

}  // namespace kinora::video

using kinora::video::FilterMotion;
KINORA_COMPONENT(FilterMotion)
