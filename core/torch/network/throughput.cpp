#include "core/torch/network/throughput.hpp"

#include <algorithm>
#include <chrono>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace kinora::core {

void Throughput::add(nlohmann::json& line, double seconds, double samples, double tokens) {
  if (seconds <= 0) return;
  line["samples_per_second"] = samples / seconds;
  if (tokens > 0) line["tokens_per_second"] = tokens / seconds;
  if (flops_per_sample <= 0) return;
  const double flops = flops_per_sample * samples / seconds;
  line["flops_per_second"] = flops;
  if (is_measured) peak_flops = std::max(peak_flops, flops / static_cast<double>(ranks));
  if (peak_flops > 0) line["mfu"] = flops / (peak_flops * static_cast<double>(ranks));
}

at::Tensor TokenMeter::sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) {
  const at::Tensor out = next.sequence(x, spec, seq);
  if (pass().no_grad) return out;
  const Count& row = count_of(next.table(seq, Place::stream));
  count_.all += x.size(0) * x.size(1);
  count_.own += x.size(0) * row.own;
  count_.learnt += x.size(0) * row.learnt;
  return out;
}

// Found by the table's address, since reading a table waits for the device.
const TokenMeter::Count& TokenMeter::count_of(const at::Tensor& table) {
  for (auto it = counted_.begin(); it != counted_.end(); ++it)
    if (it->table.data_ptr() == table.data_ptr() && it->table.sizes() == table.sizes()) {
      counted_.splice(counted_.begin(), counted_, it);
      return it->count;
    }
  constexpr size_t most = 64;  // number of geometries that the root keeps
  if (counted_.size() == most) counted_.pop_back();
  const at::Tensor row = table[0], there = row.select(1, KINORA_TOKEN_INDEX) >= 0,
                   noisy = there & (row.select(1, KINORA_TOKEN_NOISY) == 1);
  Count count;
  count.own = there.sum().item<int64_t>();
  count.learnt = two_streams_ ? noisy.sum().item<int64_t>() : count.own;
  counted_.push_front({table, count});
  return counted_.front().count;
}

double measured_peak_flops(at::Device device, at::ScalarType dtype) {
  const at::NoGradGuard off;
  const int64_t side = device.is_cpu() ? 1024 : 8192;
  const auto n = static_cast<double>(side);
  if (device.is_cpu() && dtype == at::kBFloat16) dtype = at::kFloat;
  const auto options = at::TensorOptions().device(device).dtype(dtype);
  const at::Tensor a = at::ones({side, side}, options), b = at::ones({side, side}, options);
  at::Tensor out = at::mm(a, b);  // starts the threads
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
