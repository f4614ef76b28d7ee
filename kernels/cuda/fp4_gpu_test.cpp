// NVFP4's kernels on a GPU: the bits of the reference, and the bandwidth next to a copy's.
#include <cstdio>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/cuda/fp4.hpp"
#include "kernels/cuda/gpu_testing.hpp"
#include "kernels/fp4/cases.hpp"

namespace kinora::fp4 {
namespace {

using cuda::OnDevice;
using cuda::seconds_of;
using Fp4Gpu = cuda::GpuTest;

template <class T>
void expect_reference_bits() {
  for_cases<T>([](const Shape& n, const std::vector<T>& x, const Options& o, const std::string& what) {
    if (testing::Test::HasFatalFailure()) return;
    const Amax want_amax = reference::find_amax(n, x.data(), o.hadamard, o.column_major);
    Quantized want = room_for(n, o.swizzled), got;
    want.global = reference::quantize(n, x.data(), o, want_amax.value, want.codes.data(), want.scales.data());
    std::vector<T> want_x(x.size());
    reference::dequantize(n, want.codes.data(), want.scales.data(), o.swizzled, want.global, want_x.data());

    OnDevice<T> in(x), out(x.size());
    OnDevice<Amax> amax(1);
    OnDevice<uint8_t> codes(want.codes.size()), scales(want.scales.size());
    OnDevice<float> global(1);
    KINORA_CUDA_OK(cuda::fp4_amax(n, in.data(), o.hadamard, o.column_major, amax.data(), nullptr));
    KINORA_CUDA_OK(cuda::fp4_quantize(n, in.data(), o, amax.data(), codes.data(), scales.data(),
                                      global.data(), nullptr));
    KINORA_CUDA_OK(
        cuda::fp4_dequantize(n, codes.data(), scales.data(), o.swizzled, global.data(), out.data(), nullptr));
    KINORA_CUDA_OK(cudaDeviceSynchronize());
    const Amax got_amax = amax.host()[0];
    ASSERT_EQ(bits_of(want_amax.value), bits_of(got_amax.value)) << what;
    ASSERT_EQ(got_amax.non_finite, 0u) << what;
    got = {codes.host(), scales.host(), global.host()[0]};
    ASSERT_EQ(bits_of(want.global), bits_of(got.global)) << what;
    ASSERT_TRUE(same_bits(want.scales, got.scales)) << what << ": scales";
    ASSERT_TRUE(same_bits(want.codes, got.codes)) << what << ": codes";
    ASSERT_TRUE(same_bits(want_x, out.host())) << what << ": decoded";
  });
}

TEST_F(Fp4Gpu, Float32HasTheReferencesBits) { expect_reference_bits<float>(); }
TEST_F(Fp4Gpu, Bfloat16HasTheReferencesBits) { expect_reference_bits<Bfloat16>(); }

// These have more tiles than the kernel of the maximum has thread blocks, and rows that end within a pack.
TEST_F(Fp4Gpu, LargeMatricesHaveTheReferencesBits) {
  for (const Shape& n : {Shape{4099, 2064}, Shape{20000, 131}}) {
    const auto x = narrowed(matrix(n, Content::gaussian, 8));
    OnDevice<Bfloat16> in(x);
    OnDevice<Amax> amax(1);
    const Amax want_amax = find_amax(n, x.data(), true);
    for (int bits = 0; bits < 4; ++bits) {
      Options o;
      o.hadamard = true, o.square = bits & 1, o.stochastic = bits & 2;
      Quantized want = room_for(n, false);
      want.global = quantize(n, x.data(), o, want_amax.value, want.codes.data(), want.scales.data());
      OnDevice<uint8_t> codes(want.codes.size()), scales(want.scales.size());
      OnDevice<float> global(1);
      KINORA_CUDA_OK(cuda::fp4_amax(n, in.data(), true, false, amax.data(), nullptr));
      KINORA_CUDA_OK(cuda::fp4_quantize(n, in.data(), o, amax.data(), codes.data(), scales.data(),
                                        global.data(), nullptr));
      KINORA_CUDA_OK(cudaDeviceSynchronize());
      EXPECT_EQ(bits_of(amax.host()[0].value), bits_of(want_amax.value));
      EXPECT_TRUE(same_bits(want, Quantized{codes.host(), scales.host(), global.host()[0]})) << name_of(o);
      std::vector<Bfloat16> want_x(x.size());
      dequantize(n, want.codes.data(), want.scales.data(), false, want.global, want_x.data());
      OnDevice<Bfloat16> out(x.size());
      KINORA_CUDA_OK(
          cuda::fp4_dequantize(n, codes.data(), scales.data(), false, global.data(), out.data(), nullptr));
      EXPECT_TRUE(std::memcmp(want_x.data(), out.host().data(), out.bytes()) == 0) << name_of(o);
    }
  }
}

TEST_F(Fp4Gpu, NonFiniteValuesAreCounted) {
  const Shape n{300, 100};
  auto x = matrix(n, Content::gaussian, 9);
  x[3] = std::numeric_limits<float>::infinity(), x[29999] = std::numeric_limits<float>::quiet_NaN();
  for (int i = 100; i < 116; ++i) x[static_cast<size_t>(i)] = 3e38f;
  OnDevice<float> in(x);
  OnDevice<Amax> amax(1);
  for (const bool hadamard : {false, true}) {
    const Amax want = reference::find_amax(n, x.data(), hadamard);
    KINORA_CUDA_OK(cuda::fp4_amax(n, in.data(), hadamard, false, amax.data(), nullptr));
    EXPECT_EQ(amax.host()[0].non_finite, want.non_finite);
    EXPECT_EQ(bits_of(amax.host()[0].value), bits_of(want.value));
  }
}

struct Trial {
  const char* name;
  double least;  // share of a copy's bandwidth; 0: arithmetic sets its time
  double bytes;
  std::function<cudaError_t()> launch;
};

// Prints a line a kernel: bytes that it must move, over time, and the share of a copy that moves as many.
TEST_F(Fp4Gpu, PrintsItsBandwidth) {
  const Shape n{16384, 8192};
  const auto count = static_cast<size_t>(n.rows * n.cols);
  const auto part = narrowed(matrix({1, 1 << 20}, Content::gaussian, 1));
  OnDevice<Bfloat16> x(count), other(count);
  for (size_t at = 0; at < count; at += part.size())
    KINORA_CUDA_OK(
        cudaMemcpy(x.data() + at, part.data(), part.size() * sizeof(Bfloat16), cudaMemcpyHostToDevice));
  OnDevice<Amax> amax(1);
  OnDevice<uint8_t> codes(static_cast<size_t>(code_bytes(n))),
      scales(static_cast<size_t>(scale_bytes(n, false)));
  OnDevice<float> global(1);
  KINORA_CUDA_OK(cuda::fp4_amax(n, x.data(), false, false, amax.data(), nullptr));

  const double input = static_cast<double>(x.bytes()),
               all = input + static_cast<double>(codes.bytes() + scales.bytes());
  const auto quantize_with = [&](auto set) {
    Options o;
    set(o);
    return [&, o] {
      return cuda::fp4_quantize(n, x.data(), o, amax.data(), codes.data(), scales.data(), global.data(),
                                nullptr);
    };
  };
  constexpr double kLeast = 0.3;
  const Trial trials[] = {
      {"amax", kLeast, input,
       [&] { return cuda::fp4_amax(n, x.data(), false, false, amax.data(), nullptr); }},
      {"amax, hadamard", kLeast, input,
       [&] { return cuda::fp4_amax(n, x.data(), true, false, amax.data(), nullptr); }},
      {"1x16 nearest", kLeast, all, quantize_with([](Options&) {})},
      {"1x16 nearest, hadamard", kLeast, all, quantize_with([](Options& o) { o.hadamard = true; })},
      {"1x16 nearest, swizzled", kLeast, all, quantize_with([](Options& o) { o.swizzled = true; })},
      {"1x16 nearest, column-major", kLeast, all, quantize_with([](Options& o) { o.column_major = true; })},
      {"1x16 stochastic", kLeast, all, quantize_with([](Options& o) { o.stochastic = true; })},
      {"1x16 stochastic, hadamard", kLeast, all,
       quantize_with([](Options& o) { o.stochastic = o.hadamard = true; })},
      {"the same, column-major", kLeast, all,
       quantize_with([](Options& o) { o.stochastic = o.hadamard = o.column_major = true; })},
      {"16x16 nearest", kLeast, all, quantize_with([](Options& o) { o.square = true; })},
      {"1x16 nearest, mse", 0, all, quantize_with([](Options& o) { o.rule = ScaleRule::mse; })},
      {"16x16 nearest, mse", 0, all,
       quantize_with([](Options& o) { o.rule = ScaleRule::mse, o.square = true; })},
      {"dequantize, from swizzled", kLeast, all,
       [&] {
         return cuda::fp4_dequantize(n, codes.data(), scales.data(), true, global.data(), other.data(),
                                     nullptr);
       }},
      {"dequantize", kLeast, all,
       [&] {
         return cuda::fp4_dequantize(n, codes.data(), scales.data(), false, global.data(), other.data(),
                                     nullptr);
       }},
  };
  int device = 0;
  cudaDeviceProp properties;
  KINORA_CUDA_OK(cudaGetDevice(&device));
  KINORA_CUDA_OK(cudaGetDeviceProperties(&properties, device));
  std::printf("[measured] %s, [%lld, %lld] bfloat16\n", properties.name, static_cast<long long>(n.rows),
              static_cast<long long>(n.cols));
  for (const Trial& trial : trials) {
    const auto half = static_cast<size_t>(trial.bytes / 2);  // a copy reads it and writes it
    const double copy =
        seconds_of([&] { return cudaMemcpyAsync(other.data(), x.data(), half, cudaMemcpyDeviceToDevice); });
    const double kernel = seconds_of(trial.launch);
    std::printf("[measured] %-28s %7.1f GB/s, %5.1f %% of a copy (%.1f GB/s)\n", trial.name,
                trial.bytes / kernel / 1e9, 100 * copy / kernel, trial.bytes / copy / 1e9);
    EXPECT_GT(copy, trial.least * kernel) << trial.name << ": accesses are not coalesced";
  }
}

}  // namespace
}  // namespace kinora::fp4
