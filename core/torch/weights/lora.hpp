// LoRA adapters (Hu et al. 2021, arXiv 2106.09685): y = x W^T + scale (x A^T) B^T with A [rank, in], B [out,
// rank]. Written files are PEFT's: adapter_config.json and adapter_model.safetensors with
// base_model.model.MODULE.lora_A.weight and .lora_B.weight, where MODULE.weight is the adapted
// matrix. Read files may also be other programs' (lora_names.hpp).
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace kinora::core {

struct LoraOptions {
  int64_t rank = 8;
  double alpha = 8;
  std::vector<std::string> targets;  // modules: a full name, or its end after a dot ("to_q", "attn1.to_q")
  std::string pattern;               // alternative: a regular expression that the full name matches
  double dropout = 0;                // share of A's inputs that a training step drops
  bool of_file = false;              // targets are the names of an adapter's file, in that file's scheme
  bool rslora = false;  // Kalajdzievski 2023 (arXiv 2312.03732): alpha / sqrt(rank) instead of alpha / rank

  double scale() const { return scale(rank, alpha); }
  double scale(int64_t rank, double alpha) const;
  bool is_target(const std::string& module) const;
};

// A training job's option: "rank=16 alpha=32 dropout=0.1 targets=to_q,to_k rslora" in any order, with
// pattern=REGEX as an alternative to targets; or an adapter's folder, whose rank, dropout and modules it
// takes. alpha defaults to the rank. Throws kinora::Error(KINORA_ERROR_INVALID).
LoraOptions parse_lora(const std::string& text);

// Parameter names of A and B.
std::string lora_a(const std::string& module);
std::string lora_b(const std::string& module);
bool is_lora(const std::string& parameter);
// "blocks.0.attn.to_q" for "blocks.0.attn.to_q.weight"; "" if it is not a module's matrix.
std::string module_of(const std::string& parameter);

struct Adapter {
  struct Pair {
    at::Tensor a, b;  // borrow from the file
    double scale = 1;
  };
  LoraOptions options;  // targets: names of all modules
  // By module, and whole differences by parameter ("blocks.0.norm3.weight"), in the file's scheme without its
  // program's prefix; our_names() has ours.
  std::map<std::string, Pair> modules;
  std::map<std::string, at::Tensor> differences;

  // The pair's contribution to a weight, as a matrix [out, in]: scale B A, computed in at least float32.
  static at::Tensor product(const Pair& pair, at::ScalarType dtype);
  // The names of all parameters that it changes.
  std::vector<std::string> parameters() const;
};

// The pairs of whole matrices given by parameter names, keyed by module.
std::map<std::string, Adapter::Pair> adapter_pairs(const std::map<std::string, at::Tensor>& tensors);
// The matrix plus the pair's contribution, in the matrix' dtype.
at::Tensor merged(const at::Tensor& weight, const Adapter::Pair& pair);

// The network of a file of several that is meant.
enum class AdapterOf {
  any,  // the transformer; of two experts' adapters, none is chosen
  high,
  low,  // one expert of a pipeline with two: transformer, transformer_2
  text_encoder,
};

// Reads a folder (PEFT's, diffusers' or any with one safetensors file), or a safetensors file. A module's alpha is
// that of its tensor MODULE.alpha, else of the header's lora_adapter_metadata (diffusers), else of
// adapter_config.json next to the file, else its rank. Adapters of other networks in the file are left out with one
// line. Throws kinora::Error(KINORA_ERROR_UNSUPPORTED) for anything but LoRA and whole differences, such as DoRA,
// with the program that writes it, and KINORA_ERROR_INVALID for a file of both experts if `of` does not say which.
Adapter read_adapter(const std::filesystem::path& path, AdapterOf of = AdapterOf::any);

// Whether the path is an adapter: its tensors are named as LoRA is.
bool is_adapter(const std::filesystem::path& path);
// If an adapter is among the weights of a component: an error's text, with the command that merges it; else "".
std::string adapter_among(const std::vector<std::filesystem::path>& weights, const std::string& component);

// Writes both files as PEFT does. pairs: A and B by module; options: of those whose scale and rank are not said to be
// others.
void write_adapter(const std::filesystem::path& folder, const LoraOptions& options,
                   const std::map<std::string, Adapter::Pair>& pairs, const std::string& base_model = "");

}  // namespace kinora::core
