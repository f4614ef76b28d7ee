// NVFP4's kernels on one thread, over matrices that no cache holds: bytes read and written a second, and the
// share of the rate of a memcpy that moves as many bytes. Both rates are of the shortest of the repetitions.
#include <benchmark/benchmark.h>

#include "kernels/fp4/bandwidth.hpp"
#include "kernels/fp4/cases.hpp"

namespace kinora::fp4 {
namespace {

constexpr Shape kShape{4096, 8192};
constexpr double kValues = static_cast<double>(kShape.rows * kShape.cols);

template <class T>
const std::vector<T>& values() {
  static const auto kAll =
      repeated(as<T>(matrix({1, 1 << 16}, Content::gaussian, 1)), kShape.rows * kShape.cols);
  return kAll;
}

template <class T>
void amax(benchmark::State& state, bool hadamard, bool column_major) {
  const auto& x = values<T>();
  report_bandwidth(state, kValues * sizeof(T),
                   [&] { benchmark::DoNotOptimize(find_amax(kShape, x.data(), hadamard, column_major)); });
}

template <class T>
void quantize_with(benchmark::State& state, const Options& o) {
  const auto& x = values<T>();
  Quantized q = room_for(kShape, o.swizzled);
  report_bandwidth(state, kValues * (sizeof(T) + 9.0 / 16),
                   [&] { q.global = quantize(kShape, x.data(), o, 5, q.codes.data(), q.scales.data()); });
}

template <class T>
void dequantize_with(benchmark::State& state, bool swizzled) {
  Options o;
  o.swizzled = swizzled;
  Quantized q = room_for(kShape, swizzled);
  q.global = quantize(kShape, values<T>().data(), o, 5, q.codes.data(), q.scales.data());
  std::vector<T> x(values<T>().size());
  report_bandwidth(state, kValues * (sizeof(T) + 9.0 / 16), [&] {
    dequantize(kShape, q.codes.data(), q.scales.data(), swizzled, q.global, x.data());
  });
}

template <class T>
void add_all(const std::string& number) {
  for (const bool hadamard : {false, true})
    for (const bool column_major : {false, true})
      benchmark::RegisterBenchmark(
          ("amax " + number + (hadamard ? " hadamard" : "") + (column_major ? " column-major" : "")).c_str(),
          amax<T>, hadamard, column_major)
          ->UseManualTime();
  for (const Options& o : all_options()) {
    const bool other_rule =
        o.rule == ScaleRule::mae || o.rule == ScaleRule::abs_max || o.rule == ScaleRule::static_4;
    if (other_rule && (o.hadamard || o.column_major)) continue;
    benchmark::RegisterBenchmark(("quantize " + number + " " + name_of(o)).c_str(), quantize_with<T>, o)
        ->UseManualTime();
  }
  for (const bool swizzled : {false, true})
    benchmark::RegisterBenchmark(("dequantize " + number + (swizzled ? " swizzled" : "")).c_str(),
                                 dequantize_with<T>, swizzled)
        ->UseManualTime();
}

}  // namespace
}  // namespace kinora::fp4

int main(int argc, char** argv) {
  kinora::fp4::add_all<kinora::fp4::Bfloat16>("bfloat16");
  kinora::fp4::add_all<float>("float32");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
