// FP8's kernels on one thread, over matrices that no cache holds: bytes read and written a second, and the share
// of the rate of a memcpy that moves as many bytes.
#include <benchmark/benchmark.h>

#include "kernels/fp4/bandwidth.hpp"
#include "kernels/fp8/cases.hpp"

namespace kinora::fp8 {
namespace {

constexpr Shape kShape{4096, 8192};
constexpr double kValues = static_cast<double>(kShape.rows * kShape.cols);

template <class T>
const std::vector<T>& values() {
  static const auto kAll =
      fp4::repeated(as<T>(matrix({1, 1 << 16}, Content::gaussian, 1)), kShape.rows * kShape.cols);
  return kAll;
}

template <class T>
void quantize_with(benchmark::State& state, const Options& o) {
  const auto& x = values<T>();
  Quantized q = room_for(kShape, o);
  const double bytes = kValues * (sizeof(T) + 1) + static_cast<double>(q.scales.size());
  fp4::report_bandwidth(state, bytes, [&] {
    q.non_finite = quantize(kShape, x.data(), o, 5, q.codes.data(), q.scales.data());
  });
}

template <class T>
void dequantize_with(benchmark::State& state, const Options& o) {
  Quantized q = room_for(kShape, o);
  quantize(kShape, values<T>().data(), o, 5, q.codes.data(), q.scales.data());
  std::vector<T> x(values<T>().size());
  const double bytes = kValues * (sizeof(T) + 1) + static_cast<double>(q.scales.size());
  fp4::report_bandwidth(state, bytes,
                        [&] { dequantize(kShape, q.codes.data(), q.scales.data(), o, x.data()); });
}

template <class T>
void add_all(const std::string& number) {
  const auto add = [&](const std::string& what, void (*run)(benchmark::State&, const Options&),
                       const Options& o) {
    benchmark::RegisterBenchmark((what + " " + number + " " + name_of(o)).c_str(), run, o)->UseManualTime();
  };
  for (const Options& o : all_options()) {
    if (o.rule != ScaleRule::up) continue;
    add("quantize", quantize_with<T>, o);
    if (!o.column_major) add("dequantize", dequantize_with<T>, o);
  }
}

}  // namespace
}  // namespace kinora::fp8

int main(int argc, char** argv) {
  kinora::fp8::add_all<kinora::fp8::Bfloat16>("bfloat16");
  kinora::fp8::add_all<float>("float32");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
