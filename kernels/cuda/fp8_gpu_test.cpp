// FP8's kernels on a GPU: the bits of the reference, and the bandwidth next to a copy's.
#include <cstdio>

#include "kernels/cuda/fp8.hpp"
#include "kernels/cuda/gpu_testing.hpp"
#include "kernels/fp8/cases.hpp"

namespace kinora::fp8 {
namespace {

using cuda::OnDevice;
using cuda::seconds_of;
using Fp8Gpu = cuda::GpuTest;

template <class T>
void expect_reference_bits() {
  for_cases<T>([](const Shape& n, const std::vector<T>& x, const Options& o, const std::string& what) {
    if (testing::Test::HasFatalFailure()) return;
    const fp4::Amax amax = fp4::reference::find_amax(n, x.data(), false);
    Quantized want = room_for(n, o);
    want.non_finite = reference::quantize(n, x.data(), o, amax.value, want.codes.data(), want.scales.data());
    std::vector<T> want_x(x.size());
    reference::dequantize(n, want.codes.data(), want.scales.data(), o, want_x.data());

    OnDevice<T> in(x), out(x.size());
    OnDevice<fp4::Amax> on_device(std::vector<fp4::Amax>{amax});
    OnDevice<uint8_t> codes(want.codes.size()), scales(want.scales.size());
    OnDevice<unsigned long long> non_finite(1);
    KINORA_CUDA_OK(cuda::fp8_quantize(n, in.data(), o, on_device.data(), codes.data(), scales.data(),
                                      non_finite.data(), nullptr));
    KINORA_CUDA_OK(cuda::fp8_dequantize(n, codes.data(), scales.data(), o, out.data(), nullptr));
    KINORA_CUDA_OK(cudaDeviceSynchronize());
    ASSERT_EQ(non_finite.host()[0], want.non_finite) << what;
    ASSERT_TRUE(same_bits(want.scales, scales.host())) << what << ": scales";
    ASSERT_TRUE(same_bits(want.codes, codes.host())) << what << ": codes";
    ASSERT_TRUE(same_bits(want_x, out.host())) << what << ": decoded";
  });
}

TEST_F(Fp8Gpu, Float32HasTheReferencesBits) { expect_reference_bits<float>(); }
TEST_F(Fp8Gpu, Bfloat16HasTheReferencesBits) { expect_reference_bits<Bfloat16>(); }

TEST_F(Fp8Gpu, NonFiniteValuesAreCounted) {
  const Shape n{300, 100};
  auto x = matrix(n, Content::gaussian, 9);
  x[3] = std::numeric_limits<float>::infinity(), x[29999] = std::numeric_limits<float>::quiet_NaN();
  OnDevice<float> in(x);
  for (const Options& o : all_options()) {
    if (o.scaling == Scaling::tensor) continue;
    Quantized want = room_for(n, o);
    reference::quantize(n, x.data(), o, 0, want.codes.data(), want.scales.data());
    OnDevice<uint8_t> codes(want.codes.size()), scales(want.scales.size());
    OnDevice<unsigned long long> non_finite(1);
    KINORA_CUDA_OK(cuda::fp8_quantize(n, in.data(), o, nullptr, codes.data(), scales.data(),
                                      non_finite.data(), nullptr));
    EXPECT_EQ(non_finite.host()[0], 2u) << name_of(o);
    EXPECT_TRUE(same_bits(want.codes, codes.host()) && same_bits(want.scales, scales.host())) << name_of(o);
  }
}

// Prints a line a kernel: bytes that it must move, over time, and the share of a copy that moves as many.
TEST_F(Fp8Gpu, PrintsItsBandwidth) {
  const Shape n{16384, 8192};
  const auto count = static_cast<size_t>(n.rows * n.cols);
  const auto part = as<Bfloat16>(matrix({1, 1 << 20}, Content::gaussian, 1));
  OnDevice<Bfloat16> x(count), other(count);
  for (size_t at = 0; at < count; at += part.size())
    KINORA_CUDA_OK(
        cudaMemcpy(x.data() + at, part.data(), part.size() * sizeof(Bfloat16), cudaMemcpyHostToDevice));
  OnDevice<fp4::Amax> amax(std::vector<fp4::Amax>{{5, 0, 0}});
  OnDevice<uint8_t> codes(count), scales(count / 16);
  OnDevice<unsigned long long> non_finite(1);
  const double bytes = static_cast<double>(count) * 3;
  const double copy = seconds_of(
      [&] { return cudaMemcpyAsync(other.data(), x.data(), count * 3 / 2, cudaMemcpyDeviceToDevice); });
  const auto report = [&](const std::string& name, double seconds) {
    std::printf("[measured] %-32s %7.1f GB/s, %5.1f %% of a copy (%.1f GB/s)\n", name.c_str(),
                bytes / seconds / 1e9, 100 * copy / seconds, bytes / copy / 1e9);
    EXPECT_GT(copy, 0.3 * seconds) << name << ": accesses are not coalesced";
  };
  for (const Options& o : all_options()) {
    if (o.rule != ScaleRule::up) continue;
    report(name_of(o), seconds_of([&] {
             return cuda::fp8_quantize(n, x.data(), o, amax.data(), codes.data(), scales.data(),
                                       non_finite.data(), nullptr);
           }));
    if (!o.column_major)
      report("dequantize " + name_of(o), seconds_of([&] {
               return cuda::fp8_dequantize(n, codes.data(), scales.data(), o, other.data(), nullptr);
             }));
  }
}

}  // namespace
}  // namespace kinora::fp8
