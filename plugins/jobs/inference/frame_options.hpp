// Options of train and generate jobs that decide which frames of a video attend to which.
#pragma once
#include "core/run/job.hpp"

namespace kinora::core {

struct FrameOptions {
  bool causal = false, teacher_forcing = false;
  int64_t chunk = 1, window = 0, sink = 0;

  bool in_chunks() const { return causal || teacher_forcing; }

  template <class O>
  static void describe_frames(Describe<O>& d) {
    d.option("causal", &O::causal).help("restrict each frame's attention to its own chunk and earlier ones");
    d.option("chunk", &O::chunk).range(1, 1e6).unit("latent frames").help("length of a causal chunk");
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

}  // namespace kinora::core
