// Which frames of a video see which: what a train job's and a generate job's options say of it.
#pragma once
#include "core/run/job.hpp"

namespace kinora::core {

struct FrameOptions {
  bool causal = false, teacher_forcing = false;
  int64_t chunk = 1, window = 0, sink = 0;

  bool in_chunks() const { return causal || teacher_forcing; }

  template <class O>
  static void describe_frames(Describe<O>& d) {
    d.option("causal", &O::causal).help("a frame sees its own chunk and those before it, none behind");
    d.option("chunk", &O::chunk).range(1, 1e6).unit("latent frames").help("of a causal chunk");
    d.option("window", &O::window)
        .range(0, 1e6)
        .unit("chunks")
        .help("that a frame sees, its own included; 0: all before");
    d.option("sink", &O::sink)
        .range(0, 1e6)
        .unit("chunks")
        .help("the first ones, which stay in sight whatever the window");
  }
};

}  // namespace kinora::core
