#include "plugins/jobs/training/sigma_losses.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "kinora/abi/noise.h"

namespace kinora::core {

std::array<double, SigmaLosses::kBuckets + 1> SigmaLosses::edges() {
  std::array<double, kBuckets + 1> out{};
  for (size_t i = 0; i <= kBuckets; ++i) out[i] = std::pow(10.0, 0.5 * static_cast<double>(i) - 2);
  return out;
}

size_t SigmaLosses::bucket_of(double sigma) {
  static const auto inner = edges();
  const auto* first = inner.data() + 1;  // the outer edges are not limits
  return static_cast<size_t>(std::upper_bound(first, first + kBuckets - 1, sigma) - first);
}

void SigmaLosses::add(const at::Tensor& sigma, const at::Tensor& loss, uint32_t mix) {
  at::Tensor ratio = sigma.detach().to(at::kCPU, at::kDouble);
  if (mix == KINORA_MIX_RECTIFIED_FLOW) ratio = ratio / (1 - ratio);
  if (ratio.dim() == 2) ratio = ratio.log().mean(1).exp();
  const at::Tensor losses = loss.detach().to(at::kCPU, at::kDouble).contiguous();
  ratio = ratio.contiguous();
  for (int64_t i = 0; i < losses.numel(); ++i) {
    const double one = losses.data_ptr<double>()[i];
    if (!std::isfinite(one)) continue;
    const size_t b = bucket_of(ratio.data_ptr<double>()[i]);
    sum[b] += one;
    count[b] += 1;
  }
}

void SigmaLosses::operator+=(const SigmaLosses& o) {
  for (size_t i = 0; i < kBuckets; ++i) sum[i] += o.sum[i], count[i] += o.count[i];
}

void SigmaLosses::fade() {
  for (size_t i = 0; i < kBuckets; ++i) sum[i] *= kKeep, count[i] *= kKeep;
}

bool SigmaLosses::empty() const {
  return std::all_of(count.begin(), count.end(), [](double n) { return n == 0; });
}

nlohmann::json SigmaLosses::means() const {
  nlohmann::json mean = nlohmann::json::array(), counts = nlohmann::json::array();
  for (size_t i = 0; i < kBuckets; ++i) {
    mean.push_back(count[i] > 0 ? nlohmann::json(sum[i] / count[i]) : nlohmann::json());
    counts.push_back(count[i]);
  }
  return {{"mean", mean}, {"count", counts}};
}

std::string SigmaLosses::range_of(size_t bucket) {
  return fmt::format("{:.2g}-{:.2g}", edges()[bucket], edges()[bucket + 1]);
}

SigmaLosses SigmaLosses::from_json(const nlohmann::json& j) {
  SigmaLosses out;
  out.sum = j.at("sum").get<std::array<double, kBuckets>>();
  out.count = j.at("count").get<std::array<double, kBuckets>>();
  return out;
}

}  // namespace kinora::core
