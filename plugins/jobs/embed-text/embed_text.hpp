// kind = "embed-text": one vector per caption, for `kinora search`.
#pragma once
#include "plugins/jobs/training/options/paths_option.hpp"
#include "core/run/job_check.hpp"

namespace kinora::core {

// Writes text.npy [clips, D], rows of length 1, and text.json: {"clips": folder of the curate job's data,
// relative to this folder; "keys": one per row; "texts": the SHA-256 of each row's text; "rows_sha256": of
// text.npy; "encoder": the encoder that kinora search uses for queries}. A text that was embedded before keeps
// its vector.
struct EmbedTextOptions {
  int64_t max_tokens = 256, threads = 0;
  std::string device = "auto";
  WeightsPaths text_weights{"asset:minilm/model.safetensors"};
  static void describe(Describe<EmbedTextOptions>& d) {
    d.name("embed-text").help("Embeds the captions of a curate job as one vector per clip, for kinora search");
    d.option("text_weights", &EmbedTextOptions::text_weights).help("safetensors of the text encoder");
    d.option("max_tokens", &EmbedTextOptions::max_tokens)
        .range(2, 4096)
        .help("longest caption in tokens; longer ones are cut");
    d.option("device", &EmbedTextOptions::device).how_only()
        .help("device for tensor operations: auto (the first GPU, else the CPU), cpu, cuda, cuda:1");
    d.option("threads", &EmbedTextOptions::threads).how_only()
        .range(0, 4096)
        .help("number of threads for tensor operations; 0: one per core");
  }
};

}  // namespace kinora::core
