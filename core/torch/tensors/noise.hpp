// Random numbers as a function of where they are used, not of which rank draws them (kinora/random.hpp):
// equal at every world size, in a block that runs again, and after a resume.
#pragma once
#include <cstdint>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace kinora::core {

// Standard normal with like's shape [B, tokens, D], dtype and device. index: int64 [1 or B, tokens], the
// position of each token in the one-process order of its sample; the result is zero where it is -1 (padding). sample:
// int64 [1 or B, 1 or tokens], the global number of each token's sample.
at::Tensor token_noise(const at::Tensor& like, const at::Tensor& index, uint64_t seed,
                       const at::Tensor& sample, std::string_view key);
// Row b belongs to sample first_sample + b.
at::Tensor token_noise(const at::Tensor& like, const at::Tensor& index, uint64_t seed, int64_t first_sample,
                       std::string_view key);

// Uniform in (0, 1), float64 with like's shape, with the same keys and zeros as token_noise; on the CPU.
at::Tensor token_uniform(const at::Tensor& like, const at::Tensor& index, uint64_t seed,
                         const at::Tensor& sample, std::string_view key);

// Standard normal with like's shape [B, ...]: a function of (seed, key, sample, element within the sample).
at::Tensor sample_noise(const at::Tensor& like, uint64_t seed, int64_t first_sample, std::string_view key);

// Uniform in (0, 1), float64 with this shape [B, ...], with the same keys as sample_noise; on the CPU.
at::Tensor sample_uniform(at::IntArrayRef shape, uint64_t seed, int64_t first_sample, std::string_view key);

// Fills with values [first, first + count) of the stream (seed, key), standard normal or uniform in (0, 1).
void fill_normal(double* to, int64_t first, int64_t count, uint64_t seed, std::string_view key);
void fill_uniform(double* to, int64_t first, int64_t count, uint64_t seed, std::string_view key);

}  // namespace kinora::core
