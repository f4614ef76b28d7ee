// Options of model/ar: the keys of Cosmos-Predict1's autoregressive models.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/options.hpp"

namespace kinora::ar {

struct Config {
  std::string size;  // a preset of the published numbers; empty: the other options
  int64_t vocab_size = 64000;
  int64_t n_layers = 16, dim = 4096, n_heads = 32, n_kv_heads = 8, head_dim = 128, ffn_hidden_size = 14336;
  double norm_eps = 1e-5;
  bool use_qk_normalization = true;
  std::string rope_dim = "3D";
  double rope_theta = 500000;
  bool insert_cross_attn = false;
  int64_t insert_cross_attn_every_k_layers = 1, context_dim = 1024;
  bool tied = false;

  bool crosses(int64_t layer) const {
    return insert_cross_attn && layer % insert_cross_attn_every_k_layers == 0;
  }
};

void describe(Describe<Config>& d);
// Applies the preset, and replaces zeros that represent another option's value. Throws kinora::Error for
// combinations that the ranges of single options do not exclude.
Config checked(Config c);

}  // namespace kinora::ar
