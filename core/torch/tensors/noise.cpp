#include "core/torch/tensors/noise.hpp"

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "kernels/torch/parallel.hpp"
#include "kinora/random.hpp"

namespace kinora::core {
namespace {

// Values [first, first + count) of a sequence of pairs: value i is half i % 2 of pair i / 2.
template <class Pair>
void fill_pairs(double* to, int64_t first, int64_t count, Pair pair) {
  for (int64_t i = first; i < first + count;) {
    const auto two = pair(static_cast<uint64_t>(i / 2));
    for (auto half = static_cast<size_t>(i % 2); half < 2 && i < first + count; ++half, ++i)
      *to++ = two[half];
  }
}

at::Tensor per_sample(at::IntArrayRef shape, int64_t first_sample, auto pair_of) {
  auto out = at::empty(shape, at::kDouble);
  if (out.dim() == 0) raise(KINORA_ERROR_INVALID, "noise needs a batch dimension");
  if (out.numel() == 0) return out;
  const int64_t each = out.numel() / out.size(0);
  auto* to = out.data_ptr<double>();
  in_parallel(out.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t b = begin / each, from = begin % each, n = std::min(each - from, end - begin);
      fill_pairs(to + begin, from, n,
                 [&](uint64_t i) { return pair_of(i, static_cast<uint64_t>(first_sample + b)); });
      begin += n;
    }
  });
  return out;
}

// One value of pair_of's stream per token and channel; zero for padding.
at::Tensor per_token(const at::Tensor& like, const at::Tensor& index, const at::Tensor& sample,
                     std::string_view key, auto pair_of) {
  if (like.dim() != 3 || index.dim() != 2 || index.size(1) != like.size(1) ||
      (index.size(0) != 1 && index.size(0) != like.size(0)))
    raise(KINORA_ERROR_INVALID, "noise '{}': expected [B, tokens, D] and one index per token, got {} and {}",
          key, c10::str(like.sizes()), c10::str(index.sizes()));
  const int64_t tokens = like.size(1), channels = like.size(2);
  const auto places = index.to(at::kCPU).expand({like.size(0), tokens}).contiguous();
  const auto* place = places.data_ptr<int64_t>();
  const auto numbers = sample.to(at::kCPU).expand({like.size(0), tokens}).contiguous();
  const auto* number = numbers.data_ptr<int64_t>();
  auto out = at::empty(like.sizes(), at::kDouble);
  auto* to = out.data_ptr<double>();
  in_parallel(like.size(0) * tokens, std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(channels, 1)),
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  if (place[row] < 0) {
                    std::fill_n(to + row * channels, channels, 0.0);
                    continue;
                  }
                  // The counter is (channel pair, token, sample): 32, 32 and 64 bits.
                  const uint64_t token = static_cast<uint64_t>(place[row]) << 32,
                                 sample = static_cast<uint64_t>(number[row]);
                  fill_pairs(to + row * channels, 0, channels,
                             [&](uint64_t i) { return pair_of(token | i, sample); });
                }
              });
  return out;
}

}  // namespace

void fill_normal(double* to, int64_t first, int64_t count, uint64_t seed, std::string_view key) {
  const Random r(seed, key);
  fill_pairs(to, first, count, [&](uint64_t i) { return r.normal(i); });
}

void fill_uniform(double* to, int64_t first, int64_t count, uint64_t seed, std::string_view key) {
  const Random r(seed, key);
  fill_pairs(to, first, count, [&](uint64_t i) { return r.uniform(i); });
}

at::Tensor token_noise(const at::Tensor& like, const at::Tensor& index, uint64_t seed, int64_t first_sample,
                       std::string_view key) {
  return token_noise(like, index, seed, at::arange(first_sample, first_sample + like.size(0)).unsqueeze(1),
                     key);
}

at::Tensor token_noise(const at::Tensor& like, const at::Tensor& index, uint64_t seed,
                       const at::Tensor& sample, std::string_view key) {
  const Random r(seed, key);
  return per_token(like, index, sample, key, [&](uint64_t i, uint64_t of) { return r.normal(i, of); })
      .to(like.options());
}

at::Tensor token_uniform(const at::Tensor& like, const at::Tensor& index, uint64_t seed,
                         const at::Tensor& sample, std::string_view key) {
  const Random r(seed, key);
  return per_token(like, index, sample, key, [&](uint64_t i, uint64_t of) { return r.uniform(i, of); });
}

at::Tensor sample_noise(const at::Tensor& like, uint64_t seed, int64_t first_sample, std::string_view key) {
  const Random r(seed, key);
  return per_sample(like.sizes(), first_sample,
                    [&](uint64_t i, uint64_t sample) { return r.normal(i, sample); })
      .to(like.options());
}

at::Tensor sample_uniform(at::IntArrayRef shape, uint64_t seed, int64_t first_sample, std::string_view key) {
  const Random r(seed, key);
  return per_sample(shape, first_sample, [&](uint64_t i, uint64_t sample) { return r.uniform(i, sample); });
}

}  // namespace kinora::core
