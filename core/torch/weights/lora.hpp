// LoRA adapters (Hu et al. 2021, arXiv 2106.09685): y = x W^T + scale (x A^T) B^T with A [rank, in], B [out,
// rank]; their files are PEFT's: adapter_config.json and adapter_model.safetensors with
// base_model.model.MODULE.lora_A.weight and .lora_B.weight, where MODULE.weight is the matrix that is
// adapted.
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
  std::vector<std::string> targets;  // modules: a whole name, or its end after a dot ("to_q", "attn1.to_q")
  std::string pattern;               // instead: a regular expression that the whole name matches
  double dropout = 0;                // share of the inputs of A that a training step leaves out
  bool rslora = false;  // Kalajdzievski 2023 (arXiv 2312.03732): alpha / sqrt(rank) instead of alpha / rank

  double scale() const { return scale(rank, alpha); }
  double scale(int64_t rank, double alpha) const;
  bool is_target(const std::string& module) const;
};

// A training job's option: "rank=16 alpha=32 dropout=0.1 targets=to_q,to_k rslora" in any order,
// pattern=REGEX for targets; or an adapter's folder, whose rank, dropout and modules it takes. alpha is the
// rank if not given. Throws kinora::Error(KINORA_INVALID).
LoraOptions parse_lora(const std::string& text);

// The names that A and B have as parameters.
std::string lora_a(const std::string& module);
std::string lora_b(const std::string& module);
bool is_lora(const std::string& parameter);
// "blocks.0.attn.to_q" of "blocks.0.attn.to_q.weight"; "": no module's matrix.
std::string module_of(const std::string& parameter);

struct Adapter {
  struct Pair {
    at::Tensor a, b;  // borrow from the file
    double scale = 1;
  };
  LoraOptions options;  // targets: the names of all modules
  std::map<std::string, Pair> modules;

  // The sum that stands for the pair in a weight: scale B A, computed in at least float32.
  static at::Tensor product(const Pair& pair, at::ScalarType dtype);
};

// The pairs of whole matrices by their names as parameters, by module.
std::map<std::string, Adapter::Pair> adapter_pairs(const std::map<std::string, at::Tensor>& tensors);
// The matrix with what stands for the pair added, of the same dtype.
at::Tensor merged(const at::Tensor& weight, const Adapter::Pair& pair);

// A folder with adapter_config.json, or a safetensors file of such names (alpha is then the rank; a prefix
// "transformer." is diffusers'). Throws kinora::Error(KINORA_UNSUPPORTED) for what is not a plain LoRA of
// matrices: DoRA, trained biases, other modules saved whole, embeddings, convolutions.
Adapter read_adapter(const std::filesystem::path& path);

// Both files, as PEFT writes them. pairs: A and B by module.
void write_adapter(const std::filesystem::path& folder, const LoraOptions& options,
                   const std::map<std::string, Adapter::Pair>& pairs, const std::string& base_model = "");

}  // namespace kinora::core
