// The loss by noise level: shows at which levels a model does well, and at which it still learns.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

namespace kinora::core {

// Sums over samples of the latest steps, in buckets of half a decade of the noise-to-signal ratio from 0.01
// to 100; values outside count in the outer buckets. Each step has kKeep times the weight of the next, so the
// means cover about the last 100 steps.
class SigmaLosses {
 public:
  static constexpr size_t kBuckets = 8;
  static constexpr double kKeep = 0.99;
  static std::array<double, kBuckets + 1> edges();
  static size_t bucket_of(double sigma);

  // loss [B]; sigma [B], or [B, T] (its geometric mean counts), in the units of `mix` (kinora/abi/noise.h).
  // Non-finite losses are left out.
  void add(const at::Tensor& sigma, const at::Tensor& loss, uint32_t mix);
  void operator+=(const SigmaLosses&);
  // Ends a step: reduces the weight of all earlier samples.
  void fade();
  bool empty() const;

  std::array<double, kBuckets> sum{}, count{};

  // {"mean": [..], "count": [..]}: count is the weighted number of samples; the mean is null if it is zero.
  nlohmann::json means() const;
  nlohmann::json to_json() const { return {{"sum", sum}, {"count", count}}; }
  // A bucket's range as text: "0.01-0.032".
  static std::string range_of(size_t bucket);
  static SigmaLosses from_json(const nlohmann::json&);
};

}  // namespace kinora::core
