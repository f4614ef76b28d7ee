// Quantises the matrices of linear layers to four bits (NVFP4) for a file, in the layouts of
// host/weights/packed_matrix.hpp. Matrices of embeddings, modulation, norms and heads are left alone.
#pragma once
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "host/weights/safetensors.hpp"
#include "kernels/fp4/quantize.hpp"

namespace kinora::core {

class Packing {
 public:
  // request: "format" ("compressed-tensors" or "longlive"), "scale_rule" (kernels/fp4/scale.hpp), "block"
  // ("1x16" or "16x16") and "high", patterns (wildcard.hpp) of modules, or of their weights, that are left
  // alone, in place of the default ones; or "low", the names of the weights that become four bits and no
  // others. Weights that were in four bits before, or trained so, keep their codes if rule and block are those
  // of before. Throws kinora::Error(KINORA_ERROR_INVALID) that lists the choices.
  explicit Packing(const nlohmann::json& request);

  // Whether the tensor becomes four bits: a float matrix X.weight whose module X no pattern matches, and whose
  // columns 16 divides. Other matrices of that name are noted in high(). trained: its name where it was
  // trained, which "low" has.
  bool takes(const SafeTensor& t, const std::string& trained);
  // The tensors, without bytes, that stand for the matrix.
  std::vector<SafeTensor> parts(const SafeTensor& matrix) const;
  // The values of one part of X.weight = matrix [rows, cols], on the CPU. Every part is computed anew, so that
  // one matrix at a time is in memory. Throws kinora::Error(KINORA_ERROR_DATA) that names the tensor and
  // counts its infinities and NaN.
  at::Tensor part(const std::string& name, const std::string& of, const at::Tensor& matrix);

  // Throws kinora::Error(KINORA_ERROR_INVALID), once takes() has seen every tensor, if it took none, or if a
  // pattern of the request matches no module.
  void require_use() const;

  // "quantization_config" as the layout's readers expect it in config.json.
  nlohmann::json config() const;
  // {"scale_rule", "block"}, as a request has them.
  nlohmann::json rule() const;
  int64_t matrices() const { return matrices_; }
  const std::vector<std::string>& high() const { return high_; }
  // Root of the squared error over the squared values, of all matrices whose codes were computed.
  double relative_error() const;

 private:
  at::Tensor padded(const at::Tensor& matrix) const;
  void add_error(const fp4::Shape& n, const float* x, const at::Tensor& codes, const at::Tensor& scales,
                 float global);

  bool longlive_ = false;
  std::string rule_;
  fp4::Options options_;
  std::vector<std::string> patterns_, high_;
  std::set<std::string> unused_;  // patterns of the request that have matched nothing so far
  std::set<std::string> low_;
  std::string last_;  // module that takes() saw
  int64_t matrices_ = 0;
  double squared_error_ = 0, squared_ = 0;
};

}  // namespace kinora::core
