// Options of model/t5 and model/umt5: the keys of transformers' configurations.
#pragma once
#include <cstdint>
#include <string>

#include "kinora/options.hpp"

namespace kinora::t5 {

struct Config {
  std::string size;  // a published model; empty: the other options
  int64_t vocab_size = 32128;
  int64_t d_model = 512, d_kv = 64, d_ff = 2048;
  int64_t num_layers = 6, num_heads = 8;
  int64_t relative_attention_num_buckets = 32, relative_attention_max_distance = 128;
  double layer_norm_epsilon = 1e-6;
  std::string feed_forward_proj = "relu";
  std::string model_type = "t5";  // the value in a configuration

  bool gated() const { return feed_forward_proj.starts_with("gated-"); }
  int64_t inner() const { return num_heads * d_kv; }
};

struct Umt5Config : Config {
  Umt5Config() {
    vocab_size = 256384;
    d_ff = 1024, num_layers = 8, num_heads = 6;
    feed_forward_proj = "gated-gelu";
    model_type = "umt5";
  }
};

void describe(Describe<Config>& d);
void describe(Describe<Umt5Config>& d);
// The configuration with `size` applied. Throws Error with `id` as the component's name.
Config checked(Config c, const std::string& id);

}  // namespace kinora::t5
