// Options of train and generate jobs that decide which frames of a video attend to which, and where they are
// in time.
#pragma once
#include <algorithm>

#include "core/run/job.hpp"
#include "core/torch/attention/visibility.hpp"

namespace kinora::core {

struct FrameOptions {
  bool causal = false, teacher_forcing = false;
  int64_t chunk = 1, first_chunk = 0, window = 0, sink = 0;

  bool in_chunks() const { return causal || teacher_forcing; }
  Chunks chunks() const { return {chunk, first_chunk}; }
  // Latent frames of the sink, and the most that a chunk sees besides it, its own included; 0 without a window.
  int64_t sink_frames() const { return chunks().begin(sink); }
  int64_t window_frames() const {
    return sink > 0 ? window * chunk : std::max(window * chunk, chunks().begin(window));
  }

  template <class O>
  static void describe_frames(Describe<O>& d) {
    d.option("causal", &O::causal).help("restrict each frame's attention to its own chunk and earlier ones");
    d.option("chunk", &O::chunk).range(1, 1e6).unit("latent frames").help("length of a causal chunk");
    d.option("first_chunk", &O::first_chunk)
        .range(0, 1e6)
        .unit("latent frames")
        .help("length of the first chunk, such as 1, a picture; 0: as the others");
    d.option("window", &O::window)
        .range(0, 1e6)
        .unit("chunks")
        .help("number of chunks that a frame attends to, including its own; 0: all earlier ones");
    d.option("sink", &O::sink)
        .range(0, 1e6)
        .unit("chunks")
        .help("number of first chunks that every frame attends to, whatever the window");
  }
};

// Options of the shots of a video.
struct ShotOptions {
  std::string shot_pin = "own";
  int64_t shot_jump = 8;

  template <class O>
  static void describe_shot_rule(Describe<O>& d) {
    d.option("shot_pin", &O::shot_pin)
        .choices({"own", "before", "none"})
        .help(
            "shot whose first chunk stays visible beyond the window: a chunk's own; before: at a cut still "
            "the "
            "one before it, as LongLive's code has it");
    d.option("shot_jump", &O::shot_jump)
        .range(0, 1e6)
        .unit("latent frames")
        .help("jump of the temporal positions at a cut");
  }
};

}  // namespace kinora::core
