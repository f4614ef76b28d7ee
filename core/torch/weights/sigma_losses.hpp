// The loss by noise level: which levels a model does well at, and which it still learns.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

namespace kinora::core {

// Sums over samples of the latest steps, in buckets of half a decade of the noise-to-signal ratio from 0.01
// to 100; what lies beyond is in the outer ones. Each step weighs kKeep times the one after it, so the means
// are of about the last 100 steps.
class SigmaLosses {
 public:
  static constexpr size_t kBuckets = 8;
  static constexpr double kKeep = 0.99;
  static std::array<double, kBuckets + 1> edges();
  static size_t bucket_of(double sigma);

  // loss [B]; sigma [B], or [B, T] (the geometric mean counts), in the units of `mix` (kinora/abi/noise.h).
  // Losses that are not finite are left out.
  void add(const at::Tensor& sigma, const at::Tensor& loss, uint32_t mix);
  void operator+=(const SigmaLosses&);
  // A step has passed.
  void fade();
  bool empty() const;

  std::array<double, kBuckets> sum{}, count{};

  // {"mean": [..], "count": [..]}: the faded number of samples; null where there is none.
  nlohmann::json means() const;
  nlohmann::json to_json() const { return {{"sum", sum}, {"count", count}}; }
  // "0.01-0.032", as a name.
  static std::string range_of(size_t bucket);
  static SigmaLosses from_json(const nlohmann::json&);
};

}  // namespace kinora::core
