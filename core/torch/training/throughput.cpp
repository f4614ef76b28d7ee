#include "core/torch/training/throughput.hpp"

#include <algorithm>
#include <chrono>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace kinora::core {

void Throughput::add(nlohmann::json& line, double seconds, double samples, double tokens) const {
  if (seconds <= 0) return;
  line["samples_per_second"] = samples / seconds;
  if (tokens > 0) line["tokens_per_second"] = tokens / seconds;
  if (flops_per_sample <= 0) return;
  const double flops = flops_per_sample * samples / seconds;
  line["flops_per_second"] = flops;
  if (peak_flops > 0) line["mfu"] = flops / (peak_flops * static_cast<double>(ranks));
}

double measured_peak_flops(at::Device device, at::ScalarType dtype) {
  const at::NoGradGuard off;
  const int64_t side = device.is_cpu() ? 1024 : 8192;
  const auto n = static_cast<double>(side);
  if (device.is_cpu() && dtype == at::kBFloat16) dtype = at::kFloat;
  const auto options = at::TensorOptions().device(device).dtype(dtype);
  const at::Tensor a = at::ones({side, side}, options), b = at::ones({side, side}, options);
  at::Tensor out = at::mm(a, b);  // wakes the threads
  const auto finish = [&] { return out[0][0].item<double>(); };
  finish();
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    const auto start = std::chrono::steady_clock::now();
    at::mm_out(out, a, b);
    finish();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2.0 * n * n * n / seconds);
  }
  return best;
}

}  // namespace kinora::core
