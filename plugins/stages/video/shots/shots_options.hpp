// Common options and base class of the stages that find shots.
#pragma once

#include <string>
#include <utility>

#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "shots/shots_pass.hpp"

namespace kinora::video {

struct ShotsOptions {
  int64_t downscale = 0, threads = 1, sample_height = 256;
  double sample_every = 0;
  bool thumbnails = false;
};

template <class Options>
void describe_shots(Describe<Options>& d) {
  d.option("downscale", &ShotsOptions::downscale)
      .range(0, 1024)
      .help(
          "factor by which each side is reduced; 1: full size; 0: the longer side becomes 256 pixels, as "
          "in PySceneDetect");
  d.option("threads", &ShotsOptions::threads)
      .range(1, 64)
      .help(
          "number of decoder threads; from 2 on, another thread compares the frames. The result is the same");
  d.option("sample_every", &ShotsOptions::sample_every)
      .at_least(0)
      .unit("s")
      .help(
          "interval of sampled frames, written as tensor frames for other stages from the same decode; 0: "
          "none");
  d.option("sample_height", &ShotsOptions::sample_height)
      .range(0, 16384)
      .unit("pixels")
      .help(
          "height of the sampled frames; 0: unchanged, 6 MB each for a video of 1920 x 1080. Image "
          "models take 224 to 448");
  d.option("thumbnails", &ShotsOptions::thumbnails)
      .help("write every frame at 48 x 27 as tensor thumbnails, for TransNetV2");
  d.output("frames", "[T, H, W, 3]", "uint8", "sampled frames; fact frames_at has their seconds",
           {.when = "sample_every"});
  d.output("thumbnails", "[T, 27, 48, 3]", "uint8", "every frame at 48 x 27", {.when = "thumbnails"});
  d.output("times_us", "[T]", "int64", "time of every frame since the first one", {.when = "thumbnails"});
}

// A stage that finds the shots of one video per call.
class ShotsStage : public Stage {
 public:
  kinora_resources resources() const override { return reads_media(plan_.threads); }
  void process(Sample in, const Emit& emit, const Run& run) override {
    const Media media = open_media(in);
    media_call([&] { find_shots(in, media, plan_, run); });
    emit(std::move(in));
  }

 protected:
  ShotsStage(const ShotsOptions& o, ShotsPlan plan) : plan_(std::move(plan)) {
    plan_.downscale = o.downscale;
    plan_.threads = o.threads;
    plan_.sample_every = o.sample_every;
    plan_.sample_height = o.sample_height;
    plan_.thumbnails = o.thumbnails;
  }

 private:
  ShotsPlan plan_;
};

}  // namespace kinora::video
