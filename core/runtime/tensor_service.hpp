// The work that libkinora_torch does for code that links no libtorch.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/plugin/registry.hpp"
#include "core/runtime/plain_chain.hpp"
#include "kinora/abi/tensor.h"

namespace kinora::core {

class Runtime;
struct ApplyRequest;
struct ApplyResult;

// [any-thread] They throw kinora::Error, but for noise().
class TensorService {
 public:
  virtual ~TensorService() = default;
  // Standard normal numbers for kinora_run.noise: see there. Row b of `like` is global sample first_sample + b.
  virtual int32_t noise(uint64_t seed, int64_t first_sample, const char* key, kinora_tensor like,
                        kinora_tensor* out) const = 0;
  // The options of a component whose weights say more (core/torch/network/fitting.hpp).
  virtual nlohmann::json fitted(const Component&, const nlohmann::json& given,
                                const std::vector<std::filesystem::path>& weights) const = 0;
  // The links must outlive the chain.
  virtual std::unique_ptr<PlainChain> plain_chain(const PlainChainOptions&,
                                                  const std::vector<const kinora_link*>& links) const = 0;
  // `kinora apply`, `kinora convert` and `kinora inspect` (core/torch/apply/tools.hpp).
  virtual ApplyResult apply(Runtime&, const ApplyRequest&) const = 0;
  virtual nlohmann::json convert(Runtime&, const nlohmann::json& request) const = 0;
  virtual nlohmann::json inspect(Runtime&, const nlohmann::json& request) const = 0;
};

// Opens libkinora_torch on the first call. Throws kinora::Error(KINORA_ERROR_INVALID) if there is no libtorch: the
// installation is at fault.
const TensorService& tensors();
// Null: libkinora_torch was linked and not opened, as tests do.
const TensorService* tensors_if_offered();

// tensors().noise() for components: an error is a status.
int32_t draw_noise(uint64_t seed, int64_t first_sample, const char* key, kinora_tensor like,
                   kinora_tensor* out);

// Called by libkinora_torch when it is opened.
void offer_tensors(const TensorService&);

}  // namespace kinora::core
